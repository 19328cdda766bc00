-- group_read · groups by name
-- ?1 names
select id, name, max_active, priority, enabled, gated, declared, version
from   manifest_group where name in (select value from json_each(?1)) order by id
