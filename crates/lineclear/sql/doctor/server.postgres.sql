-- server · the database's version, and the settings that we may change
-- plan_cache_mode is missing before version 12; the statement must still run there, to report that the server is too old.
select current_setting('server_version') as version, current_setting('server_version_num')::bigint as number,
       pg_is_in_recovery() as standby, coalesce(current_setting('plan_cache_mode', true), '') as plan_cache_mode,
       current_setting('autovacuum') = 'on' as autovacuum
