-- bulk_advance · record a finished portion of a bulk operation, in the transaction that did it
-- As in PostgreSQL.
-- ?1 bulk operation, ?2 position (null: that was all), ?3 done, ?4 skipped, ?5 lease in ms, ?6 the canary that was let go (null: none)
update bulk_operation
set    position = coalesce(?2, position), done = done + ?3, skipped = skipped + ?4,
       status = iif(?2 is null, 'done', status), finished_at = iif(?2 is null, now_us(), null),
       lease_ends_at = now_us() + ?5 * 1000,
       canary_job_id = coalesce(?6, canary_job_id), begun_at = iif(?6 is null, begun_at, now_us()),
       look_at = iif(?6 is null, null, now_us() + 1000000), leased_by = iif(?6 is null, leased_by, null)
where  id = ?1
returning {bulk_operation}
