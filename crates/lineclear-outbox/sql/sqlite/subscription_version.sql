-- subscription_version · the number of the next rebuild; no row: there is no such subscription, or its effects are elsewhere
-- ?1 name
update lineclear_subscription_checkpoint set versions = versions + 1
where name = ?1 and active = 1 and kind = 'transaction'
returning versions
