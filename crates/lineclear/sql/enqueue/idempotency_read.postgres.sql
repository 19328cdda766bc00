-- idempotency_read · the request that used this key, and its response
-- Index: idempotency_key_once. Zero rows: the key was not used, or its time is over.
-- $1 principal, $2 key
select request, body_hash, response from {schema}.idempotency_key
where  principal = $1::text and key = $2::text and until > now()
