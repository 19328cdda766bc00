-- runner_list · runners by name, with the current time
select id, lock_name, store, node, machine, pid, incarnation, kind, state, epoch, failures, last_error, renew_ms,
  timestampdiff(microsecond, '1970-01-01', since_at) as since_us,
  timestampdiff(microsecond, '1970-01-01', failed_at) as failed_us,
  timestampdiff(microsecond, '1970-01-01', renewed_at) as renewed_us,
  timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) as now_us
from lock_runner
order by lock_name, id
limit :limit
