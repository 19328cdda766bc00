-- bulk_lock · lock a bulk operation that the holder still leases, at the position where it left it
-- Zero rows: it was cancelled, or another server has its lease.
-- $1 bulk operation, $2 holder, $3 position, $4 longest wait for a canary in ms
select coalesce(begun_at <= now() - $4::bigint * interval '1 millisecond', false) as is_late
from   {schema}.bulk_operation
where  id = $1::bigint and status = 'running' and leased_by = $2::text and position = $3::bigint
for    update
