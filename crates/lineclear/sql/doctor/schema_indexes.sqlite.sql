-- schema_indexes · indexes of our tables that do not belong to a constraint
-- ?1 schema, unused here
select tbl_name as table_name, name, sql as definition, 1 as valid, 0 as building
from   sqlite_master
where  type = 'index' and sql is not null and ?1 is not null
order  by tbl_name, name
