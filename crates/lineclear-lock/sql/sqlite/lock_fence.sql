-- lock_fence · writes the row of the current epoch without changing it: nobody can take the lock before this transaction
-- has ended; no row: the epoch is not current
update lock_epoch set epoch = epoch where name = :name and epoch = :epoch returning epoch
