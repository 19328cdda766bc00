-- lock_break · held → free by an operator, with the next epoch, so that the holder's fence is refused; no row: it is not held as it was seen
update lock_epoch set epoch = epoch + 1, token = '', released_at = :now, ends_at = :now
where name = :name and epoch = :epoch and released_at is null and ends_at > :now
returning epoch
