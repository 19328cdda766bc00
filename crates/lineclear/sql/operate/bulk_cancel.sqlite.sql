-- bulk_cancel · a batch goes no further
-- Zero rows: it is over, or there is none.
-- ?1 batch, ?2 because (null: a person said so)
update batch set status = 'cancelled', finished_at = now_us(), stopped_because = ?2
where  id = ?1 and status in ('waiting', 'running')
returning id, action, q, reason, created_by, created_at, starts_at, status, total, total_is_exact, done, skipped, position, newest, finished_at,
       mode, over_ms, canary_job_id, look_at, stopped_because
