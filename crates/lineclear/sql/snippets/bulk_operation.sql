-- bulk_operation · the columns of a bulk operation
id, action, q, reason, created_by, created_at, starts_at, status, total, total_is_exact, done, skipped, position, newest, finished_at,
mode, over_ms, canary_job_id, look_at, stopped_because
