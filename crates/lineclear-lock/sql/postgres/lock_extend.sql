-- lock_extend · moves the end of a held lock on; no row: it is another's. One whose time is over but that nobody took is
-- still its holder's. A released one is not.
update {schema}.lock_epoch
set renewed_at = now(), ends_at = now() + $3 * interval '1 microsecond', beacon = $4, suspected_at = null
where name = $1 and token = $2 and released_at is null
returning epoch
