-- lock_acquire · free → held, with the next epoch; no row: it is busy. A request that finds the holder's beacon gone notes it, and after a
-- grace, in which the holder may renew, the lock is free. `for update` conflicts with the `for key share` of a fenced transaction, and not
-- with renewals, which change no key. It never waits: a row that is locked makes it busy
with durable as materialized (
  -- The holder acts on a grant, so a crash of the server must not lose it.
  select set_config('synchronous_commit', case s when 'off' then 'on' else s end, true) as level
  from current_setting('synchronous_commit') s
), free as materialized (
  select l.name from {schema}.lock_epoch l, durable
  where l.name = $1 and durable.level is not null
    and (l.released_at is not null or l.ends_at <= now() or (
      l.suspected_at <= now() - $7 * interval '1 microsecond' and not {schema}.lock_beacon_lives(l.beacon)))
  for update of l skip locked
), doubtful as materialized (
  select l.name from {schema}.lock_epoch l
  where l.name = $1 and l.released_at is null and l.ends_at > now() and l.suspected_at is null
    and l.beacon is not null and not {schema}.lock_beacon_lives(l.beacon)
  for no key update skip locked
), suspected as (
  update {schema}.lock_epoch l set suspected_at = clock_timestamp() from doubtful d where l.name = d.name
), taken as (
  update {schema}.lock_epoch l set
    epoch = l.epoch + 1, token = $2, holder = $3, kind = $4, by_session = false, acquired_at = now(), renewed_at = now(),
    ends_at = now() + $5 * interval '1 microsecond', released_at = null, beacon = $6, suspected_at = null
  from free where l.name = free.name
  returning l.epoch
), made as (
  insert into {schema}.lock_epoch (name, epoch, token, holder, kind, by_session, acquired_at, renewed_at, ends_at, beacon)
  select $1, 1, $2, $3, $4, false, now(), now(), now() + $5 * interval '1 microsecond', $6
  from durable where not exists (select from {schema}.lock_epoch where name = $1)
  on conflict do nothing
  returning epoch
)
select epoch from taken union all select epoch from made
