-- node_beat · a node says that it is alive; the first time, it gets its id
-- ?1 name, ?2 host, ?3 pid, ?4 incarnation, ?5 version, ?6 roles, ?7 routes, ?8 slots, ?9 runners
insert into node (name, host, pid, incarnation, version, roles, routes, slots, runners, started_at, seen_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, now_us(), now_us())
on conflict (incarnation) do update
set    roles = excluded.roles, routes = excluded.routes, slots = excluded.slots, runners = excluded.runners, seen_at = now_us()
returning id, seen_at as now
