-- health_overdue · a few jobs whose time came long ago: of each line and route in turn, and there of each group and key
--
-- Jumps from route to route, from group to group and from key to key in the indexes, and looks at the first of each: neither a
-- full line nor a million waiting jobs hide the others, and it reads some ten thousand rows at most: of 50 routes, 50 groups of
-- each, and 500 keys.
-- Indexes: work_queue_open, work_queue_gated, work_queue_held, work_queue_parked, work_queue_later, background_job_ready.
-- $1 µs past its time, $2 at most
with recursive {routes_in_line},
grouped (route, group_id, n) as (
    select r.route, (select w.group_id from {schema}.work_queue w
                     where  w.phase = 'ready' and w.gated and w.route = r.route and w.group_id > 0 order by w.group_id limit 1), 1
    from   gated r where r.route is not null
    union all
    select g.route, (select w.group_id from {schema}.work_queue w
                     where  w.phase = 'ready' and w.gated and w.route = g.route and w.group_id > g.group_id
                     order  by w.group_id limit 1), n + 1
    from   grouped g where g.group_id is not null and n < 50
),
held (key, n) as (
    (select limit_key, 1 from {schema}.work_queue where phase = 'held' order by limit_key limit 1)
    union all
    select (select w.limit_key from {schema}.work_queue w where w.phase = 'held' and w.limit_key > held.key
            order by w.limit_key limit 1), n + 1
    from   held where key is not null and n < 500
),
first as (
    select 'open' as line, null::text as lane, f.*
    from   open r cross join lateral (select id, kind, route, due_at from {schema}.work_queue
                                      where phase = 'ready' and not gated and route = r.route order by rank, id limit 200) f
    union all
    select 'gated', null, f.*
    from   gated r cross join lateral (select id, kind, route, due_at from {schema}.work_queue
                                       where phase = 'ready' and gated and route = r.route and group_id is null
                                       order by rank, id limit 200) f
    union all
    select 'gated', r.group_id::text, f.*
    from   grouped r cross join lateral (select id, kind, route, due_at from {schema}.work_queue
                                         where phase = 'ready' and gated and route = r.route and group_id = r.group_id
                                         order by rank, id limit 5) f
    union all
    select 'held', r.key, f.*
    from   held r cross join lateral (select id, kind, route, due_at from {schema}.work_queue
                                      where phase = 'held' and limit_key = r.key order by rank, id limit 5) f
    union all
    (select 'parked', null, id, kind, route, due_at from {schema}.work_queue where phase = 'parked' order by id limit 1000)
    union all
    (select 'later', null, id, kind, route, due_at from {schema}.work_queue where phase = 'later' order by due_at limit 1000)
    union all
    select 'handed', null, f.*
    from   handed r cross join lateral (select id, kind, route, was_due_at from {schema}.background_job
                                        where leased_by is null and route = r.route order by rank, id limit 200) f
)
select id, kind, route, due_at
from   (select id, kind, route, due_at, row_number() over (partition by line, route order by nth, due_at, id) as turn
        from   (select *, row_number() over (partition by line, route, lane order by due_at, id) as nth
                from   first where due_at < now() - $1::bigint * interval '1 microsecond') late) turns
order  by turn, due_at, id
limit  $2::bigint
