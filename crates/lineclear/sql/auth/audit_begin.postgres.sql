-- audit_begin · record actions before they are carried out, many at once; the outcome follows
-- $1.. who, token, action, target, request id
with drawn as materialized (
    select nextval('{schema}.audit_id_seq') as id, i.*
    from   unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[])
           with ordinality as i (who, token_id, action, target, request_id, turn)
), begun as (
    insert into {schema}.audit (id, who, token_id, action, target, request_id)
    select id, who, token_id, action, target, request_id from drawn order by turn
)
select id from drawn order by turn
