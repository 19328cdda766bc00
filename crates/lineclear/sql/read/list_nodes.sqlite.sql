-- list_nodes · nodes, last seen first, and how many jobs each holds; remote workers come after all nodes, so that they hide none
-- The rows of submitters are left out: they only hold leases, and have no heartbeat.
-- Reads all that is handed out, which is no more than nodes have room for.
-- ?1 at most, ?2 whether remote workers are wanted
with held as (
    select leased_by, count(*) as holds from background_job where leased_by is not null group by leased_by
)
select n.id, n.name, n.host, n.pid, n.incarnation, n.version, n.roles, n.routes, n.slots, n.runners, n.kinds, n.started_at, n.seen_at,
       n.drain_at, n.drain_by, n.takes_nothing, coalesce(h.holds, 0) as holds, now_us() as now
from   node n
left   join held h on h.leased_by = n.id
where  n.roles <> '["submitter"]' and (?2 or n.roles <> '["worker"]')
order  by n.roles = '["worker"]', n.seen_at desc, n.id desc limit ?1
