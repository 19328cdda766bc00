-- lock_read · who holds a lock, or held it last; no row: it was never held
select epoch, holder, kind, ends_at - :now as left from lock_epoch where name = :name
