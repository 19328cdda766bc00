-- stat_pipeline · how many jobs are at each stage, and since when the oldest
-- As in PostgreSQL. Indexes: manifest_due, work_queue_open, work_queue_gated, work_queue_later, work_queue_held, work_queue_parked,
-- background_job_ready, background_job_lease, dead_letter_status.
-- ?1 count up to
with later as materialized (
    select claim_no from work_queue where phase = 'later' and due_at > 0 order by due_at limit ?1
),
ready as materialized (
    select due_at from background_job where leased_by is null and route > '' order by route, rank, id limit ?1
),
running as materialized (
    select claimed_at from background_job where leased_by is not null and due_at > 0 order by due_at limit ?1
)
select (select count(*) from (select 1 from manifest where enabled and not held and next_due_at is not null and next_due_at <= now_us()
                              order by next_due_at, id limit ?1)) as due,
       (select min(next_due_at) from manifest
        where  enabled and not held and next_due_at is not null and next_due_at <= now_us()) as due_since,
       (select count(*) from later where claim_no = 0) as scheduled,
       (select count(*) from later where claim_no > 0) as retrying,
       (select count(*) from (select 1 from work_queue where phase = 'ready' and not gated and route > '' order by route, rank, id limit ?1))
       + (select count(*) from (select 1 from work_queue where phase = 'ready' and gated and route > '' order by route, group_id, rank, id limit ?1)) as queued,
       (select count(*) from (select 1 from work_queue where phase = 'held' and limit_key > '' order by limit_key, rank, id limit ?1)) as held,
       (select count(*) from (select 1 from work_queue where phase = 'parked' and id > 0 order by id limit ?1)) as parked,
       (select count(*) from ready) as ready,
       (select min(due_at) from ready) as ready_since,
       (select count(*) from running) as running,
       (select min(claimed_at) from running) as running_since,
       (select count(*) from (select 1 from dead_letter where status = 'awaiting' order by id limit ?1)) as dead,
       (select dead_at from dead_letter where status = 'awaiting' order by id limit 1) as dead_since,
       exists (select 1 from (select 1 from execution where job_id > 0 order by job_id desc limit 1)) as has_history,
       now_us() as now
