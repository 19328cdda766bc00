-- lock_fence · shares the row of the current epoch: nobody can take the lock before this transaction has ended; no row:
-- the epoch is not current
select epoch from lock_epoch where name = :name and epoch = :epoch lock in share mode
