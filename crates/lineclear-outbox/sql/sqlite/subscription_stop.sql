-- subscription_stop · stops at an event that fails; the events before it were handled
-- ?1 name, ?2 version, ?3 from, ?4 to, ?5 events that were handled, ?6 the event, ?7 its attempts that failed, ?8 error, ?9 reason
update lineclear_subscription_checkpoint set
  position = ?4, handled = handled + ?5, failed_position = ?6, failures = ?7, last_error = ?8,
  failed_at = cast(unixepoch('subsec') * 1000000 as integer), retry_at = null, state = 'stopped', reason = ?9, updated_at = cast(unixepoch('subsec') * 1000000 as integer)
where name = ?1 and version = ?2 and position = ?3 and state = 'running'
returning position
