-- lock_fence · share-locks the row of the current epoch: until this transaction ends, no other process can acquire the lock; no row: the
-- epoch is not current
select epoch from lock_epoch with (repeatableread, rowlock) where name = @P1 and epoch = @P2
