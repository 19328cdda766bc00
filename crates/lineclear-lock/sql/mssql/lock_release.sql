-- lock_release · releases the server's lock if this session holds it; `released` is 0 if it did
set nocount on;
declare @released int = -999;
if applock_mode('public', @P1, 'Session') = 'Exclusive'
  exec @released = sp_releaseapplock @Resource = @P1, @LockOwner = 'Session';
select @released as released
