-- subscription_cancel · ends a rebuild; the active one is as it was
-- ?1 name
delete from lineclear_subscription_checkpoint where name = ?1 and active = 0 returning version
