-- lock_release · held → free, keeping the row and its epoch; no row: this token did not hold it
update {schema}.lock_epoch
set released_at = now(), ends_at = least(ends_at, now()), beacon = null, suspected_at = null
where name = $1 and token = $2 and released_at is null
returning epoch
