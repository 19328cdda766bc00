-- lease_clean · deletes rows of locks that were released long ago
delete from lock_lease where rowid in (select rowid from lock_lease where released_at < :now - :keep limit :limit)
