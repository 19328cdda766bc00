-- lease_vanished · the row of a holder that vanished and did not come back, locked, with its last renewal; no row: it came back
set nocount on;
declare @now bigint = datediff_big(microsecond, '1970-01-01', sysutcdatetime());
select 'last renewed at '
  + convert(nvarchar(19), dateadd(second, renewed_at / 1000000 - 1577836800, '2020-01-01'), 126) + 'Z' as why
from lock_lease with (updlock, holdlock)
where lock_name = @P1 and store = @P2 and incarnation = @P3 and epoch = @P4 and released_at is null and renewed_at < @now - @P5;
