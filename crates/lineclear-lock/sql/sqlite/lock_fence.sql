-- lock_fence · updates the row of the current epoch without changing it: until this transaction ends, no other process can acquire the
-- lock; no row: the epoch is not current
update lock_epoch set epoch = epoch where name = :name and epoch = :epoch returning epoch
