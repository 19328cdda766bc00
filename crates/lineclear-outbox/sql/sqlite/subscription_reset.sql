-- subscription_reset · moves the active checkpoint to any position
-- ?1 name, ?2 position: -1 for the last one that is drawn
update lineclear_subscription_checkpoint set
  position = iif(?2 < 0, coalesce((select seq from sqlite_sequence where name = 'lineclear_event'), 0), ?2),
  failed_position = null, failures = 0, retry_at = null, updated_at = cast(unixepoch('subsec') * 1000000 as integer),
  reason = iif(state = 'stopped', null, reason), state = iif(state = 'stopped', 'running', state)
where name = ?1 and active = 1
returning version, position
