-- schema_others · views, triggers, and the definition of each table
-- ?1 schema, unused here
select type as what, name, sql as definition
from   sqlite_master
where  type in ('table', 'view', 'trigger') and name not like 'sqlite_%' and ?1 is not null
order  by type, name
