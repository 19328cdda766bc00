-- lock_acquire_session · acquires the session lock, and with it the next epoch. No epoch: another holder has the row, and the session lock,
-- if `locked`, must be released. The session lock proves that an earlier holder by session is gone
with locked as materialized (
  select pg_try_advisory_lock($5) as yes, set_config('synchronous_commit', case s when 'off' then 'on' else s end, true) as level
  from current_setting('synchronous_commit') s
), free as materialized (
  select l.name from {schema}.lock_epoch l, locked
  where l.name = $1 and locked.yes and (l.by_session or l.released_at is not null or l.ends_at <= now())
  for update of l skip locked
), taken as (
  update {schema}.lock_epoch l set
    epoch = l.epoch + 1, token = $2, holder = $3, kind = $4, by_session = true, acquired_at = now(), renewed_at = now(),
    ends_at = now() + $6 * interval '1 microsecond', released_at = null, beacon = null, suspected_at = null
  from free where l.name = free.name
  returning l.epoch
), made as (
  insert into {schema}.lock_epoch (name, epoch, token, holder, kind, by_session, acquired_at, renewed_at, ends_at)
  select $1, 1, $2, $3, $4, true, now(), now(), now() + $6 * interval '1 microsecond'
  from locked where yes and not exists (select from {schema}.lock_epoch where name = $1)
  on conflict do nothing
  returning epoch
)
select locked.yes as locked, (select epoch from taken union all select epoch from made) as epoch from locked
