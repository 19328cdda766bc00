-- explain_workers · remote workers that pull the jobs of a route, last seen first, with the columns of list_nodes
-- Reads all rows of nodes. Zero rows: no such worker was heard of lately.
-- ?1 route, ?2 at most
with held as (
    select leased_by, count(*) as holds from background_job where leased_by is not null group by leased_by
)
select n.id, n.name, n.host, n.pid, n.incarnation, n.version, n.roles, n.routes, n.slots, n.runners, n.kinds, n.started_at, n.seen_at,
       n.drain_at, n.drain_by, n.takes_nothing, coalesce(h.holds, 0) as holds, now_us() as now
from   node n
left   join held h on h.leased_by = n.id
where  n.roles = '["worker"]' and instr(n.routes, '"' || ?1 || '"') > 0
order  by n.seen_at desc, n.id desc limit ?2
