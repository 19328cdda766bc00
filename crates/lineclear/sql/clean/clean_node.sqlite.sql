-- clean_node · nodes not seen for a long time
-- Their leases ended long ago. Index: node_seen.
-- ?1 keep so many ms, ?2 at most
delete from node
where  id in (select id from node where seen_at < now_us() - ?1 * 1000 order by seen_at limit ?2);
select changes() as cleaned
