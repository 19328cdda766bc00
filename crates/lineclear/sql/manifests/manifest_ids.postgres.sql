-- manifest_ids · ids of manifests by key
-- $1 keys
select id, key from {schema}.manifest where key = any ($1::text[]) and removed_at is null
