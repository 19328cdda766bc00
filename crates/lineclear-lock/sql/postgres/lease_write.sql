-- lease_write · writes what one process holds and has held; a new holder is an event. Updates that are older than the row change nothing:
-- they may arrive late. Rows are locked in the order of their names
with input as (
  select i.*, now() - i.acquired_ago * interval '1 microsecond' as acquired_at
  from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::bigint[], $9::bigint[],
              $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[])
    as i (lock_name, store, node, machine, pid, incarnation, kind, epoch, since_ago, acquired_ago, ended_ago, renew_ms, taken)
), known as materialized (
  select l.* from {schema}.lock_lease l
  join input i on i.lock_name = l.lock_name and i.store = l.store
  order by l.lock_name, l.store
  for update of l
), news as materialized (
  select i.*, k.incarnation is distinct from i.incarnation as changed,
    k.machine || '/' || k.pid || '/' || k.incarnation as before
  from input i left join known k on k.lock_name = i.lock_name and k.store = i.store
  where k.lock_name is null or i.epoch > k.epoch or i.acquired_at > k.renewed_at
    or (i.epoch = k.epoch and i.incarnation = k.incarnation and k.released_at is null)
), handed as (
  insert into {schema}.lock_event (lock_name, store, what, at, holder, epoch, before)
  select lock_name, store, 'taken', acquired_at, machine || '/' || pid || '/' || incarnation, epoch, before
  from news where changed
)
insert into {schema}.lock_lease as l (
  lock_name, store, node, machine, pid, incarnation, kind, epoch, since_at, acquired_at, renewed_at, released_at, renew_ms, holds, contended)
select lock_name, store, node, machine, pid, incarnation, kind, epoch, now() - since_ago * interval '1 microsecond', acquired_at,
  now() - coalesce(ended_ago, 0) * interval '1 microsecond', now() - ended_ago * interval '1 microsecond', renew_ms, taken, 0
from news
order by lock_name, store
on conflict (lock_name, store) do update set
  node = excluded.node, machine = excluded.machine, pid = excluded.pid, incarnation = excluded.incarnation,
  kind = excluded.kind, epoch = excluded.epoch, renewed_at = excluded.renewed_at,
  released_at = excluded.released_at, renew_ms = excluded.renew_ms,
  -- A hold that continues keeps the moment at which it began.
  acquired_at = case when excluded.holds = 0 and l.epoch = excluded.epoch and l.incarnation = excluded.incarnation
    then l.acquired_at else excluded.acquired_at end,
  since_at = case when l.incarnation = excluded.incarnation then l.since_at else excluded.since_at end,
  holds = case when l.incarnation = excluded.incarnation then l.holds else 0 end + excluded.holds,
  contended = case when l.incarnation = excluded.incarnation then l.contended else 0 end
where excluded.epoch >= l.epoch or excluded.acquired_at > l.renewed_at
