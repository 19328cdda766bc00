-- lock_extend · moves the end of a held lock on; no row: it is another's. One whose time is over but that nobody took is
-- still its holder's. A released one is not.
update lock_epoch set renewed_at = :now, ends_at = :now + :ttl
where name = :name and token = :token and released_at is null
returning epoch
