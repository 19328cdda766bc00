-- subscription_error · the last error of a subscription that goes on
-- ?1 name, ?2 version, ?3 error
update lineclear_subscription_checkpoint set last_error = ?3, failed_at = cast(unixepoch('subsec') * 1000000 as integer) where name = ?1 and version = ?2 returning position
