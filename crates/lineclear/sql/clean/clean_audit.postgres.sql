-- clean_audit · old audit entries
-- Index: audit_at.
-- $1 keep so many ms, $2 at most
with gone as (
    delete from {schema}.audit where id = any (array (
        select id from {schema}.audit
        where  at < now() - $1::bigint * interval '1 millisecond'
        order  by at limit $2::bigint for update skip locked))
    returning 1
)
select count(*) as cleaned from gone
