-- server · what the database is, and what it lets us set
select current_setting('server_version') as version, current_setting('server_version_num')::bigint as number,
       pg_is_in_recovery() as standby, current_setting('plan_cache_mode') as plan_cache_mode,
       current_setting('autovacuum') = 'on' as autovacuum
