-- lease_current · the row of a lock before it is written, locked
select incarnation, epoch, renewed_at as renewed_us, case when released_at is null then 0 else 1 end as released,
  concat(machine, '/', pid, '/', incarnation) as holder, datediff_big(microsecond, '1970-01-01', sysutcdatetime()) as now_us
from lock_lease with (updlock, holdlock) where lock_name = @P1 and store = @P2
