-- bulk_lock · a batch that is still ours, where we left it; locked
-- Zero rows: somebody cancelled it, or another goes on with it.
-- $1 batch, $2 who, $3 position, $4 longest wait for a canary in ms
select coalesce(begun_at <= now() - $4::bigint * interval '1 millisecond', false) as is_late
from   {schema}.batch
where  id = $1::bigint and status = 'running' and leased_by = $2::text and position = $3::bigint
for    update
