-- subscription_skip · goes past the event at which the subscription fails
-- $1 name, $2 that event's position, or null for any
update {schema}.subscription_checkpoint set
  position = failed_position, failed_position = null, failures = 0, retry_at = null, updated_at = clock_timestamp(),
  state = case state when 'stopped' then 'running' else state end, reason = case state when 'stopped' then null else reason end
where name = $1::text and active and failed_position is not null and ($2::bigint is null or failed_position = $2::bigint)
returning position
