-- manifest_keys · the keys of manifests
-- ?1 manifests
select id, key from manifest where id in (select value from json_each(?1))
