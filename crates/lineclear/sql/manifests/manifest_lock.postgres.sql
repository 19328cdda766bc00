-- manifest_lock · lock manifests by id before their hold is decided again
-- A separate statement: a transaction that writes a dead letter holds this lock, and only a later snapshot sees that letter.
-- $1 manifest ids
select id from {schema}.manifest where id = any ($1::bigint[]) order by id for no key update
