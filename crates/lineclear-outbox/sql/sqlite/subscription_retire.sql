-- subscription_retire · removes the active checkpoint, if the rebuild has handled as much
-- ?1 name, ?2 version of the rebuild
delete from lineclear_subscription_checkpoint where name = ?1 and active = 1 and exists (
  select 1 from lineclear_subscription_checkpoint r
  where r.name = ?1 and r.version = ?2 and r.active = 0 and r.swaps = 1 and r.state = 'running'
    and r.position >= lineclear_subscription_checkpoint.position)
returning version
