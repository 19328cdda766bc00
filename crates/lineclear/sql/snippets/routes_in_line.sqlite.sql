-- routes_in_line · three CTEs, each with up to 50 routes: `open`, `gated` and `handed` (dispatched, not leased) jobs
-- Goes from route to route in the index.
open (route, n) as (
    select * from (select route, 1 from work_queue where phase = 'ready' and not gated and route > '' order by route limit 1)
    union all
    select (select w.route from work_queue w where w.phase = 'ready' and not w.gated and w.route > open.route
            order by w.route limit 1), n + 1
    from   open where route is not null and n < 50
),
gated (route, n) as (
    select * from (select route, 1 from work_queue where phase = 'ready' and gated and route > '' order by route limit 1)
    union all
    select (select w.route from work_queue w where w.phase = 'ready' and w.gated and w.route > gated.route
            order by w.route limit 1), n + 1
    from   gated where route is not null and n < 50
),
handed (route, n) as (
    select * from (select route, 1 from background_job where leased_by is null and route > '' order by route limit 1)
    union all
    select (select b.route from background_job b where b.leased_by is null and b.route > handed.route
            order by b.route limit 1), n + 1
    from   handed where route is not null and n < 50
)
