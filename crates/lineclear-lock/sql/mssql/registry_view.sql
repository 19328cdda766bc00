-- registry_view · the same rows, with the columns of nagare_leases
create view nagare_leases as
select lock_name, concat(machine, '/', pid) as node_id, machine, pid, kind,
  convert(nvarchar(19), dateadd(second, acquired_at / 1000000 - 1577836800, '2020-01-01'), 126) + 'Z' as acquired_at,
  convert(nvarchar(19), dateadd(second, renewed_at / 1000000 - 1577836800, '2020-01-01'), 126) + 'Z' as renewed_at
from lock_lease
where released_at is null or released_at > datediff_big(microsecond, '1970-01-01', sysutcdatetime()) - 60000000
