-- lease_list · leases by name, with the current time
set nocount on;
declare @now bigint = datediff_big(microsecond, '1970-01-01', sysutcdatetime());
select top (@P5) lock_name, store, node, machine, pid, incarnation, kind, epoch, renew_ms, holds, contended,
  since_at as since_us, acquired_at as acquired_us, renewed_at as renewed_us, released_at as released_us,
  contended_at as contended_us, @now as now_us
from lock_lease
where (@P1 is null or lock_name = @P1) and (@P2 is null or lock_name > @P2 or (lock_name = @P2 and store > @P3))
  and (@P4 is null or (released_at is null and renewed_at < @now - @P4))
order by lock_name, store
