-- runner_list · runners by name, with the database's time
-- $1 at most
select id, lock_name, store, node, machine, pid, incarnation, kind, state, epoch, failures, last_error, renew_ms,
  (extract(epoch from since_at) * 1000000)::bigint as since_us,
  (extract(epoch from failed_at) * 1000000)::bigint as failed_us,
  (extract(epoch from renewed_at) * 1000000)::bigint as renewed_us,
  (extract(epoch from clock_timestamp()) * 1000000)::bigint as now_us
from {schema}.lock_runner
order by lock_name, id
limit $1
