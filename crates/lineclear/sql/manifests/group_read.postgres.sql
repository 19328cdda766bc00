-- group_read · groups by name, locked
-- $1 names
select id, name, max_active, priority, enabled, gated, declared, version
from   {schema}.manifest_group where name = any ($1::text[]) order by id for no key update
