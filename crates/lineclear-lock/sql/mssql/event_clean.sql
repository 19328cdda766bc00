-- event_clean · deletes old events
set nocount on;
declare @now bigint = datediff_big(microsecond, '1970-01-01', sysutcdatetime());
delete top (@P2) from lock_event where [at] < @now - @P1;
