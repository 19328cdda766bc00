-- subscription_activate · a rebuild becomes the active one
-- ?1 name, ?2 version
update lineclear_subscription_checkpoint set active = 1, swaps = 0, updated_at = cast(unixepoch('subsec') * 1000000 as integer)
where name = ?1 and version = ?2 and active = 0
returning version
