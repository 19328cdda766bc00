-- subscription_resume · paused or stopped → running, with a new budget of attempts
-- ?1 name
update lineclear_subscription_checkpoint set state = 'running', reason = null, failures = 0, retry_at = null, updated_at = cast(unixepoch('subsec') * 1000000 as integer)
where name = ?1 and state <> 'running'
returning version
