-- idempotency_read · the request that used this key, and its response
-- Index: idempotency_key_once. Zero rows: the key was not used, or its time is over.
-- ?1 principal, ?2 key
select request, body_hash, response from idempotency_key
where  principal = ?1 and key = ?2 and until > now_us()
