-- lease_clean · deletes rows of locks that were released long ago
set nocount on;
declare @now bigint = datediff_big(microsecond, '1970-01-01', sysutcdatetime());
delete top (@P2) from lock_lease where released_at < @now - @P1;
