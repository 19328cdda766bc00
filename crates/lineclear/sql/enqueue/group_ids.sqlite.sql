-- group_ids · ids of groups by name
-- ?1 names
select id, name from manifest_group where name in (select value from json_each(?1))
