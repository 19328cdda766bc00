-- idempotency_lock · is nobody else busy with a request under this key?
--
-- Bound to the transaction. A statement of its own, because what is read under the lock needs a snapshot taken after it.
-- False: the first request with this key is still under way.
-- $1 key
select pg_try_advisory_xact_lock($1::bigint) as free
