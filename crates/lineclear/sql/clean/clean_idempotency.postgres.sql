-- clean_idempotency · idempotency keys whose time is over
-- SKIP LOCKED: two cleaners share the work. Index: idempotency_key_old.
-- $1 at most
with gone as (
    delete from {schema}.idempotency_key where (principal, key) in (
        select principal, key from {schema}.idempotency_key
        where  until <= now() order by until limit $1::bigint for update skip locked)
    returning 1
)
select count(*) as cleaned from gone
