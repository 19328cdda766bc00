-- stat_overdue · a few jobs whose time came long ago, oldest first
-- As in PostgreSQL; each line has a beginning, so that SQLite searches its index and does not scan it. Indexes: work_queue_open, work_queue_gated, work_queue_held, work_queue_parked, work_queue_later,
-- background_job_ready.
-- ?1 µs past its time, ?2 at most
select id, due_at
from   (select * from (select id, due_at from work_queue where phase = 'ready' and not gated and route > '' order by route, rank, id limit 1000)
        union all
        select * from (select id, due_at from work_queue where phase = 'ready' and gated and route > '' order by route, group_id, rank, id limit 1000)
        union all
        select * from (select id, due_at from work_queue where phase = 'held' and limit_key > '' order by limit_key, rank, id limit 1000)
        union all
        select * from (select id, due_at from work_queue where phase = 'parked' and id > 0 order by id limit 1000)
        union all
        select * from (select id, due_at from work_queue where phase = 'later' and due_at > 0 order by due_at limit 1000)
        union all
        select * from (select id, was_due_at as due_at from background_job where leased_by is null and route > '' order by route, rank, id limit 1000))
where  due_at < now_us() - ?1
order  by due_at, id
limit  ?2
