-- clean_node · nodes not seen for a long time
-- Their leases ended long ago.
-- Index: node_seen.
-- $1 keep so many ms, $2 at most
with gone as (
    delete from {schema}.node where id = any (array (
        select id from {schema}.node
        where  seen_at < now() - $1::bigint * interval '1 millisecond'
        order  by seen_at limit $2::bigint for update skip locked))
    returning 1
)
select count(*) as cleaned from gone
