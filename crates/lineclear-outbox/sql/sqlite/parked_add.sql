-- parked_add · parks an event that fails
-- ?1 name, ?2 version, ?3 position, ?4 attempts, ?5 error
insert into lineclear_subscription_parked as p (name, version, position, attempts, last_error) values (?1, ?2, ?3, ?4, ?5)
on conflict (name, version, position) do update set
  attempts = p.attempts + excluded.attempts, last_error = excluded.last_error, parked_at = excluded.parked_at, replays = 0
returning id
