-- schema_indexes · indexes of our tables that do not belong to a constraint
-- An index whose build failed slows every write, and no query uses it; one that is being built looks the same.
-- In the definitions, a placeholder replaces the name of our schema. It is written in two parts here so that it is not filled in.
-- $1 schema
select t.relname::text as table_name, i.relname::text as name,
       replace(pg_get_indexdef(i.oid), ' ON ' || quote_ident(n.nspname) || '.', ' ON {' || 'schema}.') as definition,
       x.indisvalid and x.indisready as valid,
       exists (select from pg_stat_progress_create_index p where p.index_relid = i.oid) as building
from   pg_index x
join   pg_class i on i.oid = x.indexrelid
join   pg_class t on t.oid = x.indrelid
join   pg_namespace n on n.oid = t.relnamespace and n.nspname = $1::text
where  not exists (select from pg_constraint k where k.conindid = i.oid and k.contype in ('p', 'u', 'x')) and t.relkind in ('r', 'p')
order  by t.relname, i.relname
