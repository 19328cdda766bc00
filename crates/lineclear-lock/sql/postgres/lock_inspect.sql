-- lock_inspect · who holds these locks, or held them last, and whether the server sees their connections; a row for each, with a null epoch
-- if it was never held. A session lock is held as long as pg_locks says so, and by another if that session began after the lock was acquired
with asked as (
  select * from unnest($1::text[], $2::bigint[]) with ordinality as a (name, key, number)
), locks as materialized (
  select k.pid, (k.classid::bigint << 32) | k.objid::bigint as key
  from pg_locks k
  where k.locktype = 'advisory' and k.granted and k.objsubid = 1
    and k.database = (select oid from pg_database where datname = current_database())
)
select l.epoch, l.token, l.holder, l.kind, l.by_session, l.released_at is null as held,
  (extract(epoch from l.ends_at - clock_timestamp()) * 1000000)::bigint as micros_left,
  k.pid::bigint as session, coalesce(s.backend_start > l.acquired_at, false) as foreign_session,
  b.pid::bigint as beacon_session, l.beacon is not null as has_beacon
from asked a
left join {schema}.lock_epoch l on l.name = a.name
left join locks k on k.key = a.key
left join locks b on b.key = l.beacon
left join pg_stat_activity s on s.pid = k.pid
order by a.number
