-- manifest_keys · the keys of manifests
-- Index: manifest_pkey. A manifest without a row was removed.
-- $1 manifests
select id, key from {schema}.manifest where id = any ($1::bigint[])
