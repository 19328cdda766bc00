-- lease_list · leases by name, with the current time
select lock_name, store, node, machine, pid, incarnation, kind, epoch, renew_ms, holds, contended,
  timestampdiff(microsecond, '1970-01-01', since_at) as since_us,
  timestampdiff(microsecond, '1970-01-01', acquired_at) as acquired_us,
  timestampdiff(microsecond, '1970-01-01', renewed_at) as renewed_us,
  timestampdiff(microsecond, '1970-01-01', released_at) as released_us,
  timestampdiff(microsecond, '1970-01-01', contended_at) as contended_us,
  timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) as now_us
from lock_lease
where (:name is null or lock_name = :name)
  and (:after is null or lock_name > :after or (lock_name = :after and store > :after_store))
  and (:quiet is null or (released_at is null and renewed_at < utc_timestamp(6) - interval coalesce(:quiet, 0) microsecond))
order by lock_name, store
limit :limit
