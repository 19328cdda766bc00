-- subscription_skip · goes past the event at which the subscription fails
-- ?1 name, ?2 that event's position, or null for any
update lineclear_subscription_checkpoint set
  position = failed_position, failed_position = null, failures = 0, retry_at = null, updated_at = cast(unixepoch('subsec') * 1000000 as integer),
  reason = iif(state = 'stopped', null, reason), state = iif(state = 'stopped', 'running', state)
where name = ?1 and active = 1 and failed_position is not null and (?2 is null or failed_position = ?2)
returning position
