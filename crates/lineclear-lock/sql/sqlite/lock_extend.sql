-- lock_extend · moves the end of a held lock; no row: the token is not the holder's. An expired lock that was not acquired since still
-- belongs to its holder; a released one does not
update lock_epoch set renewed_at = :now, ends_at = :now + :ttl
where name = :name and token = :token and released_at is null
returning epoch
