-- server · the database's version, and the settings that we may change
select sqlite_version() as version, 0 as number, 0 as standby, '' as plan_cache_mode, 1 as autovacuum
