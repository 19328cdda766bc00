-- schema_columns · columns of our tables, in their order
-- ?1 schema, unused here
select m.name as table_name, x.name as name, x.type as kind, x."notnull" as required, x.dflt_value as fallback, null as given
from   sqlite_master m, pragma_table_xinfo(m.name) x
where  m.type = 'table' and m.name not like 'sqlite_%' and ?1 is not null
order  by m.name, x.cid
