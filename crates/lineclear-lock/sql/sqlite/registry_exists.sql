-- registry_exists · whether tables and view exist
select count(*) = 3 as made from sqlite_master where name in ('lock_lease', 'lock_event', 'nagare_leases')
