-- runner_write · writes the state of a runner. A moment of its clock that is almost the same is the same one
insert into lock_runner (
  id, lock_name, store, node, machine, pid, incarnation, kind, state, since_at, epoch, failures, last_error, failed_at, renewed_at, renew_ms)
values (:id, :name, :store, :node, :machine, :pid, :incarnation, :kind, :state, :now - :since_ago, :epoch, :failures, :error,
  :now - :failed_ago, :now, :renew_ms)
on conflict (id) do update set
  since_at = iif(state = excluded.state and abs(since_at - excluded.since_at) < 1000000, since_at, excluded.since_at),
  failed_at = iif(abs(failed_at - excluded.failed_at) < 1000000, failed_at, excluded.failed_at),
  state = excluded.state, epoch = excluded.epoch, failures = excluded.failures, last_error = excluded.last_error,
  renewed_at = excluded.renewed_at, renew_ms = excluded.renew_ms
