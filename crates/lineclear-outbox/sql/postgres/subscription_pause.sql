-- subscription_pause · pauses a subscription and its rebuild; after that, no effect of a transaction is committed
-- $1 name, $2 reason
update {schema}.subscription_checkpoint set state = 'paused', reason = $2::text, updated_at = clock_timestamp()
where name = $1::text and state <> 'paused'
returning version
