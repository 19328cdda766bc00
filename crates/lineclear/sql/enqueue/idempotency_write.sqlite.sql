-- idempotency_write · a request under a key was answered; in the transaction that did what it asked for
-- A key whose time is over is taken over. Zero rows: somebody wrote it without our lock.
-- ?1 principal, ?2 key, ?3 method and path, ?4 hash of the body, ?5 response, ?6 kept for so many ms
insert into idempotency_key as k (principal, key, request, body_hash, response, until)
values (?1, ?2, ?3, ?4, ?5, now_us() + ?6 * 1000)
on conflict (principal, key) do update
set    request = excluded.request, body_hash = excluded.body_hash, response = excluded.response, until = excluded.until
where  k.until <= now_us()
returning key
