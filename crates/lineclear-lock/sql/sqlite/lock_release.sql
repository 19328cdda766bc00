-- lock_release · held → free, keeping the row and its epoch; no row: it was not held by this token
update lock_epoch set released_at = :now, ends_at = min(ends_at, :now)
where name = :name and token = :token and released_at is null
returning epoch
