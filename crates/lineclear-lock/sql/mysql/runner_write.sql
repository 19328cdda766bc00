-- runner_write · writes the state of a runner. A moment of its clock that is almost the same is the same one
insert into lock_runner (
  id, lock_name, store, node, machine, pid, incarnation, kind, state, since_at, epoch, failures, last_error, failed_at, renewed_at, renew_ms)
values (:id, :name, :store, :node, :machine, :pid, :incarnation, :kind, :state, utc_timestamp(6) - interval :since_ago microsecond,
  :epoch, :failures, :error, utc_timestamp(6) - interval :failed_ago microsecond, utc_timestamp(6), :renew_ms)
on duplicate key update
  -- First, because MySQL's assignments see the ones before them.
  since_at = if(state = values(state) and abs(timestampdiff(microsecond, since_at, values(since_at))) < 1000000, since_at, values(since_at)),
  failed_at = if(abs(timestampdiff(microsecond, failed_at, values(failed_at))) < 1000000, failed_at, values(failed_at)),
  state = values(state), epoch = values(epoch), failures = values(failures), last_error = values(last_error),
  renewed_at = values(renewed_at), renew_ms = values(renew_ms)
