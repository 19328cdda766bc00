-- lease_list · leases by name, with the current time
select lock_name, store, node, machine, pid, incarnation, kind, epoch, renew_ms, holds, contended,
  since_at as since_us, acquired_at as acquired_us, renewed_at as renewed_us, released_at as released_us,
  contended_at as contended_us, :now as now_us
from lock_lease
where (:name is null or lock_name = :name) and (:after is null or (lock_name, store) > (:after, :after_store))
  and (:quiet is null or (released_at is null and renewed_at < :now - :quiet))
order by lock_name, store
limit :limit
