-- runner_list · runners by name, with the current time
set nocount on;
declare @now bigint = datediff_big(microsecond, '1970-01-01', sysutcdatetime());
select top (@P1) id, lock_name, store, node, machine, pid, incarnation, kind, state, epoch, failures, last_error, renew_ms,
  since_at as since_us, failed_at as failed_us, renewed_at as renewed_us, @now as now_us
from lock_runner
order by lock_name, id
