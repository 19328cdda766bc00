-- manifest_lock · lock manifests by id before their hold is looked at again
-- A statement of its own: a dead letter that is being written holds this lock, and only a later snapshot sees it.
-- $1 manifest ids
select id from {schema}.manifest where id = any ($1::bigint[]) order by id for no key update
