-- parked_add · parks an event that fails
-- $1 name, $2 version, $3 position, $4 attempts, $5 error
insert into {schema}.subscription_parked as p (name, version, position, attempts, last_error)
values ($1::text, $2::integer, $3::bigint, $4::integer, $5::text)
on conflict (name, version, position) do update set
  attempts = p.attempts + excluded.attempts, last_error = excluded.last_error, parked_at = excluded.parked_at, replays = false
returning p.id
