-- lock_acquire · acquires the server's lock, and with it the next epoch. `got` is the return code of sp_getapplock; if a fenced
-- transaction locks the epoch, the lock is released again, and it is busy
set nocount on;
set implicit_transactions off;
set lock_timeout 1000;
declare @got int, @epoch bigint;
exec @got = sp_getapplock @Resource = @P1, @LockMode = 'Exclusive', @LockOwner = 'Session', @LockTimeout = 0;
if @got >= 0
begin
  begin try
    update lock_epoch set @epoch = epoch = epoch + 1, holder = @P3, kind = @P4, ttl_ms = @P5, acquired_at = sysutcdatetime()
    where name = @P2;
    if @epoch is null
    begin
      insert into lock_epoch (name, epoch, holder, kind, ttl_ms, acquired_at)
      values (@P2, 1, @P3, @P4, @P5, sysutcdatetime());
      set @epoch = 1;
    end;
  end try
  begin catch
    exec sp_releaseapplock @Resource = @P1, @LockOwner = 'Session';
    if error_number() <> 1222 begin; throw; end;
    select @got = -1, @epoch = null;
  end catch;
end;
select @got as got, @epoch as epoch;
