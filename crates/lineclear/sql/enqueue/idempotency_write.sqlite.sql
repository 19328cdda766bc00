-- idempotency_write · store the response to a request under its key, in the transaction that carried it out
-- An expired key is overwritten. Zero rows: another transaction wrote it without our lock.
-- ?1 principal, ?2 key, ?3 method and path, ?4 hash of the body, ?5 response, ?6 kept for so many ms
insert into idempotency_key as k (principal, key, request, body_hash, response, until)
values (?1, ?2, ?3, ?4, ?5, now_us() + ?6 * 1000)
on conflict (principal, key) do update
set    request = excluded.request, body_hash = excluded.body_hash, response = excluded.response, until = excluded.until
where  k.until <= now_us()
returning key
