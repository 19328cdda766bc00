-- runner_clean · deletes runners that were not renewed for long: they stopped, or their nodes vanished
delete from lock_runner where rowid in (select rowid from lock_runner where renewed_at < :now - :keep limit :limit)
