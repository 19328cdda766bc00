-- lease_current · what the row of a lock says before it is written
select incarnation, epoch, renewed_at, released_at is not null as released, machine || '/' || pid || '/' || incarnation as holder
from lock_lease where lock_name = :name and store = :store
