-- subscription_register · the checkpoint of a new subscription; one that exists keeps its position
-- ?1 name, ?2 kind, ?3 position: -1 for the last one that is drawn
insert into lineclear_subscription_checkpoint (name, version, active, versions, kind, position)
select ?1, 1, 1, 1, ?2,
  iif(?3 < 0, coalesce((select seq from sqlite_sequence where name = 'lineclear_event'), 0), ?3)
where not exists (select 1 from lineclear_subscription_checkpoint where name = ?1)
on conflict do nothing
returning version
