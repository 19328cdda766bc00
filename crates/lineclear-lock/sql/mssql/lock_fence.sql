-- lock_fence · shares the row of the current epoch: nobody can take the lock before this transaction has ended; no row:
-- the epoch is not current
select epoch from lock_epoch with (repeatableread, rowlock) where name = @P1 and epoch = @P2
