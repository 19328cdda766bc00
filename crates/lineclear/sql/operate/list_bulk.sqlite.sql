-- list_bulk · a page of batches, newest first
-- ?1 before this id, ?2 at most, ?3 only this one (null: all)
select id, action, q, reason, created_by, created_at, starts_at, status, total, total_is_exact, done, skipped, position, newest, finished_at,
       mode, over_ms, canary_job_id, look_at, stopped_because
from   batch where id < ?1 and (?3 is null or id = ?3) order by id desc limit ?2
