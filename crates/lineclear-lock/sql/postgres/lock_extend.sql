-- lock_extend · moves the end of a held lock; no row: the token is not the holder's. An expired lock that was not acquired since still
-- belongs to its holder; a released one does not
update {schema}.lock_epoch
set renewed_at = now(), ends_at = now() + $3 * interval '1 microsecond', beacon = $4, suspected_at = null
where name = $1 and token = $2 and released_at is null
returning epoch
