-- registry_exists · whether tables and view exist
select case when object_id('lock_lease') is null or object_id('lock_event') is null or object_id('nagare_leases') is null
  then 0 else 1 end as made
