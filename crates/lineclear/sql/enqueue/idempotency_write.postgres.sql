-- idempotency_write · store the response to a request under its key, in the transaction that carried it out
-- An expired key is overwritten. Zero rows: another transaction wrote it without our lock.
-- $1 principal, $2 key, $3 method and path, $4 hash of the body, $5 response, $6 kept for so many ms
insert into {schema}.idempotency_key as k (principal, key, request, body_hash, response, until)
values ($1::text, $2::text, $3::text, $4::text, $5::text, now() + $6::bigint * interval '1 millisecond')
on conflict (principal, key) do update
set    request = excluded.request, body_hash = excluded.body_hash, response = excluded.response, until = excluded.until
where  k.until <= now()
returning key
