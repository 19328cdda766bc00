-- lease_write · writes what a process holds or has held; `:changed`: the holder is a new one
insert into lock_lease (
  lock_name, store, node, machine, pid, incarnation, kind, epoch, since_at, acquired_at, renewed_at, released_at, renew_ms, holds, contended)
values (:name, :store, :node, :machine, :pid, :incarnation, :kind, :epoch, :now - :since_ago,
  :now - :acquired_ago, :now - coalesce(:ended_ago, 0), :now - :ended_ago, :renew_ms,
  :taken, 0)
on conflict (lock_name, store) do update set
  node = excluded.node, machine = excluded.machine, pid = excluded.pid, incarnation = excluded.incarnation,
  kind = excluded.kind, epoch = excluded.epoch, renewed_at = excluded.renewed_at,
  acquired_at = iif(not :changed and :taken = 0 and epoch = excluded.epoch, acquired_at, excluded.acquired_at),
  released_at = excluded.released_at, renew_ms = excluded.renew_ms,
  since_at = iif(:changed, excluded.since_at, since_at), holds = iif(:changed, 0, holds) + excluded.holds,
  contended = iif(:changed, 0, contended)
