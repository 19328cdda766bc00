-- server_tables · the server's statistics of our tables: live rows, dead rows, and the last vacuum
-- Reads no table.
-- $1 schema
select quote_ident(s.schemaname) || '.' || quote_ident(s.relname) as name, s.n_live_tup as live, s.n_dead_tup as dead,
       {micros(clock_timestamp() - greatest(s.last_vacuum, s.last_autovacuum))} as vacuumed_us,
       coalesce(c.reloptions @> array['autovacuum_enabled=false'] or c.reloptions @> array['autovacuum_enabled=off'], false) as neglected
from   pg_stat_user_tables s
join   pg_class c on c.oid = s.relid
where  s.schemaname = $1::text
order  by s.relname
