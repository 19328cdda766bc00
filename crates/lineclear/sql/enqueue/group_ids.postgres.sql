-- group_ids · ids of groups by name
-- $1 names
select id, name from {schema}.manifest_group where name = any ($1::text[])
