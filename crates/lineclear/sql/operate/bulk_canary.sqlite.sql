-- bulk_canary · the canary of a batch was looked at: the rest follows, or the batch stops, or it is looked at again
-- As in PostgreSQL.
-- ?1 batch, ?2 whether the rest follows, ?3 because of what it stops (null: it does not)
update batch
set    status = iif(?3 is null, status, 'cancelled'),
       finished_at = iif(?3 is null, null, now_us()), stopped_because = ?3, leased_by = null,
       look_at = iif(not ?2 and ?3 is null, now_us() + min(max((now_us() - begun_at) / 10, 1000000), 15000000), null)
where  id = ?1
returning id, action, q, reason, created_by, created_at, starts_at, status, total, total_is_exact, done, skipped, position, newest, finished_at,
       mode, over_ms, canary_job_id, look_at, stopped_because
