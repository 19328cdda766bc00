-- subscription_stop · stops at an event that fails; the events before it were handled
-- $1 name, $2 version, $3 from, $4 to, $5 events that were handled, $6 the event, $7 its attempts that failed, $8 error, $9 reason
update {schema}.subscription_checkpoint set
  position = $4::bigint, handled = handled + $5::bigint, failed_position = $6::bigint, failures = $7::integer, last_error = $8::text,
  failed_at = clock_timestamp(), retry_at = null, state = 'stopped', reason = $9::text, updated_at = clock_timestamp()
where name = $1::text and version = $2::integer and position = $3::bigint and state = 'running'
returning position
