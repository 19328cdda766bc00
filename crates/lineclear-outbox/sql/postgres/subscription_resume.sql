-- subscription_resume · paused or stopped → running, with a new budget of attempts
-- $1 name
update {schema}.subscription_checkpoint set
  state = 'running', reason = null, failures = 0, retry_at = null, updated_at = clock_timestamp()
where name = $1::text and state <> 'running'
returning version
