-- manifest_lock · lock manifests by id before their hold is decided again
-- The transaction's write lock covers them.
-- ?1 manifest ids
select id from manifest where id in (select value from json_each(?1)) order by id
