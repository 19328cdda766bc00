-- lease_clean · rows of locks that nobody has held for long
set nocount on;
declare @now bigint = datediff_big(microsecond, '1970-01-01', sysutcdatetime());
delete top (@P2) from lock_lease where released_at < @now - @P1;
