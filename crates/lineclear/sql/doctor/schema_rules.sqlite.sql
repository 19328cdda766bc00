-- schema_rules · keys of our tables
-- In SQLite they are part of the table's definition, and cannot be changed separately.
-- ?1 schema, unused here
select m.name as table_name, 'primary key' as name,
       'primary key (' || (select group_concat(k.name, ', ') from (select name from pragma_table_info(m.name) where pk > 0 order by pk) k)
       || ')' as definition
from   sqlite_master m
where  m.type = 'table' and m.name not like 'sqlite_%' and ?1 is not null
       and exists (select 1 from pragma_table_info(m.name) where pk > 0)
union all
select m.name, 'unique (' || (select group_concat(c.name, ', ') from (select name from pragma_index_info(l.name) order by seqno) c) || ')',
       'unique'
from   sqlite_master m, pragma_index_list(m.name) l
where  m.type = 'table' and m.name not like 'sqlite_%' and l.origin = 'u'
order  by 1, 2
