-- subscription_rebuild · a second checkpoint at the start of the log; no row: a rebuild is going on
-- ?1 name, ?2 whether it swaps by itself
insert into lineclear_subscription_checkpoint (name, version, active, versions, kind, position, swaps)
select name, versions, 0, versions, kind, 0, ?2 from lineclear_subscription_checkpoint where name = ?1 and active = 1
on conflict do nothing
returning version
