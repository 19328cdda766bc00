-- lease_current · the row of a lock before it is written
select incarnation, epoch, renewed_at as renewed_us, released_at is not null as released,
  machine || '/' || pid || '/' || incarnation as holder, :now as now_us
from lock_lease where lock_name = :name and store = :store
