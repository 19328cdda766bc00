-- runner_clean · deletes runners that were not renewed for long: they stopped, or their nodes vanished
set nocount on;
declare @now bigint = datediff_big(microsecond, '1970-01-01', sysutcdatetime());
delete top (@P2) from lock_runner where renewed_at < @now - @P1;
