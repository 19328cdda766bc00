-- subscription_clean · parked events of versions that are gone
-- ?1 name
delete from lineclear_subscription_parked where name = ?1 and not exists (
  select 1 from lineclear_subscription_checkpoint c
  where c.name = lineclear_subscription_parked.name and c.version = lineclear_subscription_parked.version)
returning id
