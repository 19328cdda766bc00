-- subscription_rebuild · a second checkpoint at the start of the log; no row: a rebuild is going on
-- $1 name, $2 whether it swaps by itself
insert into {schema}.subscription_checkpoint (name, version, active, versions, kind, position, swaps)
select name, versions, false, versions, kind, 0, $2::boolean from {schema}.subscription_checkpoint where name = $1::text and active
on conflict do nothing
returning version::bigint as version
