-- clean_node · nodes not seen for a long time that hold nothing
-- Index: node_seen.
-- ?1 keep so many ms, ?2 at most
delete from node
where  id in (select n.id from node n
              where  n.seen_at < now_us() - ?1 * 1000
                     and not exists (select 1 from background_job b where b.leased_by = n.id)
              order  by n.seen_at limit ?2);
select changes() as cleaned
