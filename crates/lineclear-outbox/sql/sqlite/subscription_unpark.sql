-- subscription_unpark · parked events behind the checkpoint: they are handled again
-- ?1 name
delete from lineclear_subscription_parked where name = ?1 and exists (
  select 1 from lineclear_subscription_checkpoint c
  where c.name = ?1 and c.active = 1 and c.version = lineclear_subscription_parked.version
    and lineclear_subscription_parked.position > c.position)
returning id
