-- registry_view · the same rows, with the columns of nagare_leases
create or replace view nagare_leases as
select convert(lock_name using utf8mb4) as lock_name, convert(concat(machine, '/', pid) using utf8mb4) as node_id,
  convert(machine using utf8mb4) as machine, pid, convert(kind using utf8mb4) as kind,
  date_format(acquired_at, '%Y-%m-%dT%H:%i:%s.%fZ') as acquired_at, date_format(renewed_at, '%Y-%m-%dT%H:%i:%s.%fZ') as renewed_at
from lock_lease
where released_at is null or released_at > utc_timestamp(6) - interval 60 second
