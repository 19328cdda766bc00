-- lock_read · who holds a lock, or held it last; no row: nobody ever did
select epoch, holder, kind, ends_at - :now as left from lock_epoch where name = :name
