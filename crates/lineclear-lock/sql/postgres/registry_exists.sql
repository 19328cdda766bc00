-- registry_exists · whether tables and view exist
select (to_regclass('{schema}.lock_lease') is not null and to_regclass('{schema}.lock_event') is not null
  and to_regclass('{schema}.nagare_leases') is not null) as made
