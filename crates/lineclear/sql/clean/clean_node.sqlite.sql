-- clean_node · nodes not seen for a long time
-- Their leases ended long ago. A submitter has no heartbeat: it stays while a node has it, or while it holds a job.
-- Index: node_seen.
-- ?1 keep so many ms, ?2 at most
delete from node
where  id in (select n.id from node n
              where  n.seen_at < now_us() - ?1 * 1000
                     and (n.roles <> '["submitter"]'
                          or not exists (select 1 from node u
                                         where  u.seen_at >= now_us() - ?1 * 1000 and u.roles <> '["submitter"]'
                                                and instr(u.routes, '"' || n.name || '"') > 0)
                             and not exists (select 1 from background_job b where b.leased_by = n.id))
              order  by n.seen_at limit ?2);
select changes() as cleaned
