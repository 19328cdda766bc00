-- lease_end · stamps the row as released if it still belongs to a hold that ended without a release
set nocount on;
declare @now bigint = datediff_big(microsecond, '1970-01-01', sysutcdatetime());
update lock_lease set released_at = @now, renewed_at = @now
where lock_name = @P1 and store = @P2 and epoch = @P3 and incarnation = coalesce(@P4, incarnation) and released_at is null;
