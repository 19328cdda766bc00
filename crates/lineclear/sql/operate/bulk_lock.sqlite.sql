-- bulk_lock · a bulk operation that the holder still leases, at the position where it left it
-- As in PostgreSQL.
-- ?1 bulk operation, ?2 holder, ?3 position, ?4 longest wait for a canary in ms
select coalesce(begun_at <= now_us() - ?4 * 1000, 0) as is_late
from   bulk_operation
where  id = ?1 and status = 'running' and leased_by = ?2 and position = ?3
