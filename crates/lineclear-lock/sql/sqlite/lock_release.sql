-- lock_release · held → free, keeping the row and its epoch; no row: this token did not hold it
update lock_epoch set released_at = :now, ends_at = min(ends_at, :now)
where name = :name and token = :token and released_at is null
returning epoch
