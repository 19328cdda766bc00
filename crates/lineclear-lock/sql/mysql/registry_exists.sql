-- registry_exists · whether tables and view exist
select count(*) = 3 as made from information_schema.tables
where table_schema = database() and table_name in ('lock_lease', 'lock_event', 'nagare_leases')
