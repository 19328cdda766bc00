-- subscription_want_swap · a rebuild replaces the active one as soon as it has caught up
-- ?1 name
update lineclear_subscription_checkpoint set swaps = 1, updated_at = cast(unixepoch('subsec') * 1000000 as integer) where name = ?1 and active = 0 returning version
