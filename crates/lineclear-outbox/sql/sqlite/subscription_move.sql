-- subscription_move · moves a checkpoint; no row: it was moved, paused or removed meanwhile
-- ?1 name, ?2 version, ?3 from, ?4 to, ?5 events that were handled
update lineclear_subscription_checkpoint set
  position = ?4, handled = handled + ?5, failed_position = null, failures = 0, retry_at = null, updated_at = cast(unixepoch('subsec') * 1000000 as integer)
where name = ?1 and version = ?2 and position = ?3 and state = 'running'
returning position
