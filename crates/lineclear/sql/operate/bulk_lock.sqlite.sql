-- bulk_lock · a batch that is still ours, where we left it
-- As in PostgreSQL.
-- ?1 batch, ?2 who, ?3 position, ?4 longest wait for a canary in ms
select coalesce(begun_at <= now_us() - ?4 * 1000, 0) as is_late
from   batch
where  id = ?1 and status = 'running' and leased_by = ?2 and position = ?3
