-- lease_remove · deletes the row of a holder that vanished
set nocount on;
delete from lock_lease where lock_name = @P1 and store = @P2;
