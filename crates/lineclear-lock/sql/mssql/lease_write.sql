-- lease_write · writes what a process holds or has held; @P14 is 1 if the holder is a new one
set nocount on;
declare @now bigint = datediff_big(microsecond, '1970-01-01', sysutcdatetime());
update lock_lease set
  node = @P3, machine = @P4, pid = @P5, incarnation = @P6, kind = @P7, epoch = @P8,
  -- A hold that continues keeps the moment at which it began.
  acquired_at = case when @P14 = 0 and @P13 = 0 and epoch = @P8 then acquired_at else @now - @P10 end,
  renewed_at = @now - coalesce(@P11, 0), released_at = @now - @P11, renew_ms = @P12,
  since_at = case when @P14 = 1 then @now - @P9 else since_at end, holds = case when @P14 = 1 then 0 else holds end + @P13,
  contended = case when @P14 = 1 then 0 else contended end
where lock_name = @P1 and store = @P2;
if @@rowcount = 0
  insert into lock_lease (
    lock_name, store, node, machine, pid, incarnation, kind, epoch, since_at, acquired_at, renewed_at, released_at, renew_ms, holds, contended)
  values (@P1, @P2, @P3, @P4, @P5, @P6, @P7, @P8, @now - @P9, @now - @P10, @now - coalesce(@P11, 0), @now - @P11, @P12, @P13, 0);
