-- lock_break · held → free by an operator, with the next epoch, so that the holder's fence is refused; and the session that carries the
-- lock is ended. `broken` false: it is not held as it was seen; `fenced`: a fenced transaction prevents it
-- $1 name, $2 epoch, $3 key
with seen as materialized (
  select l.name, l.by_session from {schema}.lock_epoch l
  where l.name = $1 and l.epoch = $2 and l.released_at is null and (l.by_session or l.ends_at > now())
), free as materialized (
  select l.name from {schema}.lock_epoch l join seen on seen.name = l.name
  where l.epoch = $2 and l.released_at is null
  for update of l skip locked
), ended as (
  update {schema}.lock_epoch l set
    epoch = l.epoch + 1, token = '', released_at = now(), ends_at = least(l.ends_at, now()), beacon = null, suspected_at = null
  from free where l.name = free.name
  returning l.name
), sessions as (
  select pg_terminate_backend(k.pid)
  from pg_locks k, free, seen
  where seen.by_session and k.locktype = 'advisory' and k.granted and k.objsubid = 1
    and k.database = (select oid from pg_database where datname = current_database())
    and k.classid = (($3::bigint >> 32) & 4294967295)::oid and k.objid = ($3::bigint & 4294967295)::oid
)
select exists (select from ended) as broken, exists (select from seen) and not exists (select from free) as fenced,
  (select count(*) from sessions) as sessions
