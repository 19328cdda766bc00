-- clean_node · nodes not seen for a long time
-- Their leases ended long ago. A submitter has no heartbeat: it stays while a node has it, or while it holds a job.
-- Index: node_seen.
-- $1 keep so many ms, $2 at most
with gone as (
    delete from {schema}.node where id = any (array (
        select n.id from {schema}.node n
        where  n.seen_at < now() - $1::bigint * interval '1 millisecond'
               and (n.roles <> '["submitter"]'
                    or not exists (select from {schema}.node u
                                   where  u.seen_at >= now() - $1::bigint * interval '1 millisecond' and u.roles <> '["submitter"]'
                                          and strpos(u.routes, '"' || n.name || '"') > 0)
                       and not exists (select from {schema}.background_job b where b.leased_by = n.id))
        order  by n.seen_at limit $2::bigint for update of n skip locked))
    returning 1
)
select count(*) as cleaned from gone
