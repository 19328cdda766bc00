-- lock_fence · share-locks the row of the current epoch: until this transaction ends, no other process can acquire the lock; no row: the
-- epoch is not current
select epoch from lock_epoch where name = :name and epoch = :epoch lock in share mode
