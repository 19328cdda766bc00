-- subscription_register · the checkpoint of a new subscription; one that exists keeps its position
-- $1 name, $2 kind, $3 position: -1 for the last one that is drawn
insert into {schema}.subscription_checkpoint as c (name, version, active, versions, kind, position)
select $1::text, 1, true, 1, $2::text,
  case when $3::bigint < 0 then (select last from {schema}.event_mark()) else $3::bigint end
where not exists (select from {schema}.subscription_checkpoint where name = $1::text)
on conflict do nothing
returning version
