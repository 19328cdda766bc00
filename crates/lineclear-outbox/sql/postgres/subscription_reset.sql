-- subscription_reset · moves the active checkpoint to any position
-- $1 name, $2 position: -1 for the last one that is drawn
update {schema}.subscription_checkpoint set
  position = case when $2::bigint < 0 then (select last from {schema}.event_mark()) else $2::bigint end,
  failed_position = null, failures = 0, retry_at = null, updated_at = clock_timestamp(),
  state = case state when 'stopped' then 'running' else state end, reason = case state when 'stopped' then null else reason end
where name = $1::text and active
returning version, position
