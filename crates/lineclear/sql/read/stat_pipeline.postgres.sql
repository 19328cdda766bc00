-- stat_pipeline · how many jobs are at each stage, and since when the oldest
--
-- Counts no further than $1: with a million waiting jobs this costs no more than with ten thousand. Of the jobs that are due
-- later, it reads the soonest.
-- Indexes: manifest_due, work_queue_open, work_queue_gated, work_queue_later, work_queue_held, work_queue_parked,
-- background_job_ready, background_job_lease, dead_letter_status, execution_pkey (from its newest entry: the old end may be
-- full of rows that were cleaned away).
-- $1 count up to
with later as materialized (
    select claim_no from {schema}.work_queue where phase = 'later' order by due_at limit $1::bigint
),
ready as materialized (
    select due_at from {schema}.background_job where leased_by is null order by route, rank, id limit $1::bigint
),
running as materialized (
    select claimed_at from {schema}.background_job where leased_by is not null order by due_at limit $1::bigint
)
select (select count(*) from (select 1 from {schema}.manifest where enabled and not held and next_due_at <= now()
                              order by next_due_at, id limit $1::bigint) m) as due,
       (select min(next_due_at) from {schema}.manifest where enabled and not held and next_due_at <= now()) as due_since,
       (select count(*) from later where claim_no = 0) as scheduled,
       (select count(*) from later where claim_no > 0) as retrying,
       (select count(*) from (select 1 from {schema}.work_queue where phase = 'ready' and not gated order by route, rank, id limit $1::bigint) w)
       + (select count(*) from (select 1 from {schema}.work_queue where phase = 'ready' and gated order by route, group_id, rank, id limit $1::bigint) w) as queued,
       (select count(*) from (select 1 from {schema}.work_queue where phase = 'held' order by limit_key, rank, id limit $1::bigint) w) as held,
       (select count(*) from (select 1 from {schema}.work_queue where phase = 'parked' order by id limit $1::bigint) w) as parked,
       (select count(*) from ready) as ready,
       (select min(due_at) from ready) as ready_since,
       (select count(*) from running) as running,
       (select min(claimed_at) from running) as running_since,
       (select count(*) from (select 1 from {schema}.dead_letter where status = 'awaiting' order by id limit $1::bigint) d) as dead,
       (select dead_at from {schema}.dead_letter where status = 'awaiting' order by id limit 1) as dead_since,
       exists (select from (select 1 from {schema}.execution order by job_id desc limit 1) e) as has_history,
       now() as now
