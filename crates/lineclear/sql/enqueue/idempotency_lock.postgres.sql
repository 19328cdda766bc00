-- idempotency_lock · is this key free, or is another request with it under way?
--
-- Bound to the transaction. A separate statement, because the reads under the lock need a snapshot taken after it.
-- False: the first request with this key is still under way.
-- $1 key
select pg_try_advisory_xact_lock($1::bigint) as free
