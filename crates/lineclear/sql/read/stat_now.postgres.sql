-- stat_now · how much waits, runs and needs a person, right now
--
-- Counts no further than $1: with a million waiting jobs this costs no more than with ten thousand. Dispatched
-- jobs that are not claimed count as waiting. The longest wait is that of the first jobs of each route (of 50).
-- Indexes: work_queue_open, work_queue_gated, background_job_ready, background_job_lease, dead_letter_status, node_seen.
-- $1 count up to
with recursive {routes_in_line},
first as (
    select f.due_at
    from   open r cross join lateral (select due_at from {schema}.work_queue
                                      where phase = 'ready' and not gated and route = r.route order by rank, id limit 200) f
    union all
    select f.due_at
    from   gated r cross join lateral (select due_at from {schema}.work_queue
                                       where phase = 'ready' and gated and route = r.route order by group_id, rank, id limit 200) f
    union all
    select f.due_at
    from   handed r cross join lateral (select was_due_at as due_at from {schema}.background_job
                                        where leased_by is null and route = r.route order by rank, id limit 200) f
),
ready as (
    select count(*) as jobs from (select 1 from {schema}.background_job where leased_by is null order by route, rank, id limit $1::bigint) b
)
select (select count(*) from (select 1 from {schema}.work_queue where id > 0 order by id limit $1::bigint) w) + (select jobs from ready) as waiting,
       (select count(*) from (select 1 from {schema}.work_queue where phase = 'ready' and not gated order by route, rank, id limit $1::bigint) w)
       + (select count(*) from (select 1 from {schema}.work_queue where phase = 'ready' and gated order by route, group_id, rank, id limit $1::bigint) w)
       + (select jobs from ready) as due,
       (select count(*) from (select 1 from {schema}.background_job where leased_by is not null order by due_at limit $1::bigint) b) as running,
       (select count(*) from (select 1 from {schema}.dead_letter where status = 'awaiting' order by id limit $1::bigint) d) as dead_letters,
       (select count(*) from {schema}.node where seen_at > now() - interval '30 seconds' and roles not in ('["worker"]', '["submitter"]')) as nodes,
       (select count(*) from {schema}.node where seen_at > now() - interval '30 seconds' and roles = '["worker"]') as workers,
       (select coalesce(sum(slots), 0)::bigint from {schema}.node where seen_at > now() - interval '30 seconds' and roles = '["worker"]') as worker_slots,
       (select min(due_at) from first) as oldest_due_at,
       now() as now
