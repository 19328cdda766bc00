-- route_kinds · where the jobs of kinds go from now on; `main`: the nodes run them
-- Returned: kinds whose route has changed, and their route before. Read before it is written: a start of a node that changes nothing
-- locks nothing.
-- $1.. kind, route
with said as materialized (
    select i.kind, i.route, coalesce(k.route, 'main') as before
    from   unnest($1::text[], $2::text[]) as i (kind, route)
    left   join {schema}.kind_route k on k.kind = i.kind
    where  i.route <> coalesce(k.route, 'main')
),
gone as (
    delete from {schema}.kind_route where kind in (select kind from said where route = 'main')
),
written as (
    insert into {schema}.kind_route as k (kind, route)
    select kind, route from said where route <> 'main' order by kind
    on conflict (kind) do update set route = excluded.route
)
select kind, route, before from said order by kind
