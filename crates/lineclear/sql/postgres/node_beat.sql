-- node_beat · a node says that it is alive; the first time, it gets its id
-- $1 name, $2 host, $3 pid, $4 incarnation, $5 version, $6 roles, $7 routes, $8 slots, $9 runners
insert into {schema}.node as n (name, host, pid, incarnation, version, roles, routes, slots, runners)
values ($1::text, $2::text, $3::bigint, $4::text, $5::text, $6::text, $7::text, $8::bigint, $9::text)
on conflict (incarnation) do update
set    roles = excluded.roles, routes = excluded.routes, slots = excluded.slots, runners = excluded.runners, seen_at = now()
returning id, now() as now
