-- idempotency_write · a request under a key was answered; in the transaction that did what it asked for
-- A key whose time is over is taken over. Zero rows: somebody wrote it without our lock.
-- $1 principal, $2 key, $3 method and path, $4 hash of the body, $5 response, $6 kept for so many ms
insert into {schema}.idempotency_key as k (principal, key, request, body_hash, response, until)
values ($1::text, $2::text, $3::text, $4::text, $5::text, now() + $6::bigint * interval '1 millisecond')
on conflict (principal, key) do update
set    request = excluded.request, body_hash = excluded.body_hash, response = excluded.response, until = excluded.until
where  k.until <= now()
returning key
