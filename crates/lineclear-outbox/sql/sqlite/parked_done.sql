-- parked_done · a parked event was handled
-- ?1 id, ?2 name, ?3 version. No row: it was discarded meanwhile, or its subscription does not run
delete from lineclear_subscription_parked where id = ?1 and replays = 1 and exists (
  select 1 from lineclear_subscription_checkpoint c where c.name = ?2 and c.version = ?3 and c.state = 'running')
returning id
