-- subscription_pause · pauses a subscription and its rebuild; after that, no effect of a transaction is committed
-- ?1 name, ?2 reason
update lineclear_subscription_checkpoint set state = 'paused', reason = ?2, updated_at = cast(unixepoch('subsec') * 1000000 as integer)
where name = ?1 and state <> 'paused'
returning version
