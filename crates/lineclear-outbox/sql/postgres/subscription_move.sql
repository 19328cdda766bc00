-- subscription_move · moves a checkpoint; no row: it was moved, paused or removed meanwhile
-- $1 name, $2 version, $3 from, $4 to, $5 events that were handled
update {schema}.subscription_checkpoint set
  position = $4::bigint, handled = handled + $5::bigint, failed_position = null, failures = 0, retry_at = null, updated_at = clock_timestamp()
where name = $1::text and version = $2::integer and position = $3::bigint and state = 'running'
returning position
