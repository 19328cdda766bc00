-- route_kinds · where the jobs of kinds go from now on; `main`: the nodes run them
-- As in PostgreSQL, over a temporary table because SQLite has no data-modifying CTEs.
-- ?1 rows of kind, route
delete from temp.rerouted;
insert into temp.rerouted
select i.value ->> 0, i.value ->> 1, coalesce(k.route, 'main')
from   json_each(?1) i left join kind_route k on k.kind = i.value ->> 0
where  i.value ->> 1 <> coalesce(k.route, 'main');
delete from kind_route where kind in (select kind from temp.rerouted where route = 'main');
insert into kind_route (kind, route)
select kind, route from temp.rerouted where route <> 'main'
on conflict (kind) do update set route = excluded.route;
select kind, route, before from temp.rerouted order by kind
