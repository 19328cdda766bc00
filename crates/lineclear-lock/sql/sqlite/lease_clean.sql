-- lease_clean · rows of locks that nobody has held for long
delete from lock_lease where rowid in (select rowid from lock_lease where released_at < :now - :keep limit :most)
