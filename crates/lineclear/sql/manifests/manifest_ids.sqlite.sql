-- manifest_ids · ids of manifests by key
-- ?1 keys
select id, key from manifest where key in (select value from json_each(?1)) and removed_at is null
