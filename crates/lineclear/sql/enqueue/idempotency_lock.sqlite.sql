-- idempotency_lock · is this key free, or is another request with it under way?
-- Always free: the transaction holds the write lock, so a second request has waited for the first.
select 1 as free
