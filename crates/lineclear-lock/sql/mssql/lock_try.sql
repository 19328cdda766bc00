-- lock_try · acquires the server's lock alone; `got` is the return code of sp_getapplock
set nocount on;
declare @got int;
exec @got = sp_getapplock @Resource = @P1, @LockMode = 'Exclusive', @LockOwner = 'Session', @LockTimeout = 0;
select @got as got
