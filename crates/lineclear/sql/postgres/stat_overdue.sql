-- stat_overdue · a few jobs whose time came long ago, oldest first
--
-- Looks at the first thousand of each line, so that a million waiting jobs cost no more than a few thousand.
-- Indexes: work_queue_open, work_queue_gated, work_queue_held, work_queue_parked, work_queue_later, background_job_ready.
-- $1 µs past its time, $2 at most
select id, due_at
from   ((select id, due_at from {schema}.work_queue where phase = 'ready' and not gated order by route, rank, id limit 1000)
        union all
        (select id, due_at from {schema}.work_queue where phase = 'ready' and gated order by route, group_id, rank, id limit 1000)
        union all
        (select id, due_at from {schema}.work_queue where phase = 'held' order by limit_key, rank, id limit 1000)
        union all
        (select id, due_at from {schema}.work_queue where phase = 'parked' order by id limit 1000)
        union all
        (select id, due_at from {schema}.work_queue where phase = 'later' order by due_at limit 1000)
        union all
        (select id, was_due_at from {schema}.background_job where leased_by is null order by route, rank, id limit 1000)) first
where  due_at < now() - $1::bigint * interval '1 microsecond'
order  by due_at, id
limit  $2::bigint
