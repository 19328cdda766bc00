-- schema_others · what is neither column nor index: views, triggers, and what makes each table
-- ?1 schema, which is not asked for here
select type as what, name, sql as definition
from   sqlite_master
where  type in ('table', 'view', 'trigger') and name not like 'sqlite_%' and ?1 is not null
order  by type, name
