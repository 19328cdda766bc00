-- list_nodes · nodes, last seen first
-- ?1 at most
select id, name, host, pid, incarnation, version, roles, routes, slots, runners, kinds, started_at, seen_at, now_us() as now
from   node order by seen_at desc, id desc limit ?1
