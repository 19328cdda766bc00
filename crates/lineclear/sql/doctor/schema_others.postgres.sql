-- schema_others · sequences, views and functions
-- In the definitions, a placeholder replaces the name of our schema. It is written in two parts here so that it is not filled in.
-- $1 schema
select 'sequence' as what, c.relname::text as name, 'CREATE SEQUENCE {' || 'schema}.' || quote_ident(c.relname) || ' AS bigint' as definition
from   pg_class c
join   pg_namespace n on n.oid = c.relnamespace and n.nspname = $1::text
where  c.relkind = 'S' and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'i')
union all
select 'view', c.relname::text, 'CREATE VIEW {' || 'schema}.' || quote_ident(c.relname) || ' AS' || chr(10) || pg_get_viewdef(c.oid)
from   pg_class c
join   pg_namespace n on n.oid = c.relnamespace and n.nspname = $1::text
where  c.relkind = 'v'
union all
select 'function', p.proname::text, pg_get_functiondef(p.oid)
from   pg_proc p
join   pg_namespace n on n.oid = p.pronamespace and n.nspname = $1::text
where  p.prokind = 'f'
order  by 1, 2
