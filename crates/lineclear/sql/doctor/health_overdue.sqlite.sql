-- health_overdue · a few jobs whose time came long ago: of each line and route in turn, and there of each group and key
-- As in PostgreSQL; each line has a beginning, so that SQLite searches its index and does not scan it. Indexes: work_queue_open,
-- work_queue_gated, work_queue_held, work_queue_parked, work_queue_later, background_job_ready.
-- ?1 µs past its time, ?2 at most
with recursive {routes_in_line},
grouped (route, group_id, n) as (
    select r.route, (select w.group_id from work_queue w
                     where  w.phase = 'ready' and w.gated and w.route = r.route and w.group_id > 0 order by w.group_id limit 1), 1
    from   gated r where r.route is not null
    union all
    select g.route, (select w.group_id from work_queue w
                     where  w.phase = 'ready' and w.gated and w.route = g.route and w.group_id > g.group_id
                     order  by w.group_id limit 1), n + 1
    from   grouped g where g.group_id is not null and n < 50
),
held (key, n) as (
    select * from (select limit_key, 1 from work_queue where phase = 'held' and limit_key > '' order by limit_key limit 1)
    union all
    select (select w.limit_key from work_queue w where w.phase = 'held' and w.limit_key > held.key
            order by w.limit_key limit 1), n + 1
    from   held where key is not null and n < 500
),
first (line, lane, id, kind, route, due_at) as (
    select 'open', null, w.id, w.kind, w.route, w.due_at
    from   open r cross join work_queue w
           on w.id in (select f.id from work_queue f where f.phase = 'ready' and not f.gated and f.route = r.route
                       order by f.rank, f.id limit 200)
    union all
    select 'gated', null, w.id, w.kind, w.route, w.due_at
    from   gated r cross join work_queue w
           on w.id in (select f.id from work_queue f where f.phase = 'ready' and f.gated and f.route = r.route and f.group_id is null
                       order by f.rank, f.id limit 200)
    union all
    select 'gated', r.group_id, w.id, w.kind, w.route, w.due_at
    from   grouped r cross join work_queue w
           on w.id in (select f.id from work_queue f where f.phase = 'ready' and f.gated and f.route = r.route and f.group_id = r.group_id
                       order by f.rank, f.id limit 5)
    union all
    select 'held', r.key, w.id, w.kind, w.route, w.due_at
    from   held r cross join work_queue w
           on w.id in (select f.id from work_queue f where f.phase = 'held' and f.limit_key = r.key order by f.rank, f.id limit 5)
    union all
    select * from (select 'parked', null, id, kind, route, due_at from work_queue where phase = 'parked' and id > 0 order by id limit 1000)
    union all
    select * from (select 'later', null, id, kind, route, due_at from work_queue where phase = 'later' and due_at > 0 order by due_at limit 1000)
    union all
    select 'handed', null, b.id, b.kind, b.route, b.was_due_at
    from   handed r cross join background_job b
           on b.id in (select f.id from background_job f where f.leased_by is null and f.route = r.route order by f.rank, f.id limit 200)
)
select id, kind, route, due_at
from   (select id, kind, route, due_at, row_number() over (partition by line, route order by nth, due_at, id) as turn
        from   (select *, row_number() over (partition by line, route, lane order by due_at, id) as nth
                from   first where due_at < now_us() - ?1) late) turns
order  by turn, due_at, id
limit  ?2
