-- clean_idempotency · idempotency keys whose time is over
-- Index: idempotency_key_old.
-- ?1 at most
delete from idempotency_key
where  (principal, key) in (select principal, key from idempotency_key where until <= now_us() order by until limit ?1);
select changes() as cleaned
