-- server · what the database is, and what it lets us set
select sqlite_version() as version, 0 as number, 0 as standby, '' as plan_cache_mode, 1 as autovacuum
