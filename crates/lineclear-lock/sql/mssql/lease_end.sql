-- lease_end · a hold ended otherwise than by its release: the row, if it is still that hold's, is held no more
set nocount on;
declare @now bigint = datediff_big(microsecond, '1970-01-01', sysutcdatetime());
update lock_lease set released_at = @now, renewed_at = @now
where lock_name = @P1 and store = @P2 and epoch = @P3 and incarnation = coalesce(@P4, incarnation) and released_at is null;
