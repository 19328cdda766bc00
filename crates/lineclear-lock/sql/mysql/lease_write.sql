-- lease_write · writes what a process holds or has held; `:changed`: the holder is a new one
insert into lock_lease (
  lock_name, store, node, machine, pid, incarnation, kind, epoch, since_at, acquired_at, renewed_at, released_at, renew_ms, holds, contended)
values (:name, :store, :node, :machine, :pid, :incarnation, :kind, :epoch, utc_timestamp(6) - interval :since_ago microsecond,
  utc_timestamp(6) - interval :acquired_ago microsecond, utc_timestamp(6) - interval coalesce(:ended_ago, 0) microsecond,
  utc_timestamp(6) - interval :ended_ago microsecond, :renew_ms, :taken, 0)
on duplicate key update
  -- First, because MySQL's assignments see the ones before them.
  acquired_at = if(not :changed and :taken = 0 and epoch = values(epoch), acquired_at, values(acquired_at)),
  node = values(node), machine = values(machine), pid = values(pid), incarnation = values(incarnation), kind = values(kind),
  epoch = values(epoch), renewed_at = values(renewed_at), released_at = values(released_at),
  renew_ms = values(renew_ms), since_at = if(:changed, values(since_at), since_at),
  holds = if(:changed, 0, holds) + values(holds), contended = if(:changed, 0, contended)
