-- lock_try · takes the server's lock alone; `got` is what sp_getapplock said
set nocount on;
declare @got int;
exec @got = sp_getapplock @Resource = @P1, @LockMode = 'Exclusive', @LockOwner = 'Session', @LockTimeout = 0;
select @got as got
