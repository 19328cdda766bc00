-- lease_current · the row of a lock before it is written, locked
select incarnation, epoch, timestampdiff(microsecond, '1970-01-01', renewed_at) as renewed_us, released_at is not null as released,
  concat(machine, '/', pid, '/', incarnation) as holder, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) as now_us
from lock_lease where lock_name = :name and store = :store for update
