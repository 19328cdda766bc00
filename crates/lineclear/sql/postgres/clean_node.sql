-- clean_node · nodes not seen for a long time that hold nothing
-- Index: node_seen.
-- $1 keep so many ms, $2 at most
with gone as (
    delete from {schema}.node where id = any (array (
        select id from {schema}.node n
        where  seen_at < now() - $1::bigint * interval '1 millisecond'
               and not exists (select from {schema}.background_job b where b.leased_by = n.id)
        order  by seen_at limit $2::bigint for update skip locked))
    returning 1
)
select count(*) as cleaned from gone
