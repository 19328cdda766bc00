-- runner_list · runners by name, with the current time
select id, lock_name, store, node, machine, pid, incarnation, kind, state, epoch, failures, last_error, renew_ms,
  since_at as since_us, failed_at as failed_us, renewed_at as renewed_us, :now as now_us
from lock_runner
order by lock_name, id
limit :limit
