-- idempotency_lock · is nobody else busy with a request under this key?
-- The write lock that the transaction holds: who comes second has waited.
select 1 as free
