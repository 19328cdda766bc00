-- lease_remove · the row of a holder that went away, unless it has come back meanwhile
set nocount on;
declare @now bigint = datediff_big(microsecond, '1970-01-01', sysutcdatetime());
delete from lock_lease
output 'its last sign of life was at '
  + convert(nvarchar(19), dateadd(second, deleted.renewed_at / 1000000 - 1577836800, '2020-01-01'), 126) + 'Z' as why
where lock_name = @P1 and store = @P2 and incarnation = @P3 and epoch = @P4 and released_at is null and renewed_at < @now - @P5;
