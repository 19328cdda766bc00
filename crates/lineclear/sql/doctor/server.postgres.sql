-- server · what the database is, and what it lets us set
-- Before version 12 there is no plan_cache_mode; that it is too old must be said all the same.
select current_setting('server_version') as version, current_setting('server_version_num')::bigint as number,
       pg_is_in_recovery() as standby, coalesce(current_setting('plan_cache_mode', true), '') as plan_cache_mode,
       current_setting('autovacuum') = 'on' as autovacuum
