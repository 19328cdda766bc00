-- lock_break · the next epoch, so that the holder's fence is refused, before its connection is killed; no change: the lock is not held as
-- it was seen
update lock_epoch set epoch = epoch + 1 where name = :name and epoch = :epoch and is_used_lock(:key) = :connection
