-- subscription_kind · where the effects of a subscription are now
-- ?1 name, ?2 kind
update lineclear_subscription_checkpoint set kind = ?2 where name = ?1 and kind <> ?2 returning version
