-- schema_rules · keys and check constraints of our tables
-- `not null` belongs to the columns.
-- $1 schema
select c.relname::text as table_name, k.conname::text as name, pg_get_constraintdef(k.oid) as definition
from   pg_constraint k
join   pg_class c on c.oid = k.conrelid
join   pg_namespace n on n.oid = c.relnamespace and n.nspname = $1::text
where  k.contype in ('c', 'p', 'u', 'x')
order  by c.relname, k.conname
