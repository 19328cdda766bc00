-- batch_move · a portion of a batch is done, in the transaction that did it
-- As in PostgreSQL.
-- ?1 batch, ?2 position (null: that was all), ?3 done, ?4 skipped, ?5 lease in ms
update batch
set    position = coalesce(?2, position), done = done + ?3, skipped = skipped + ?4,
       status = iif(?2 is null, 'done', status), finished_at = iif(?2 is null, now_us(), null),
       lease_ends_at = now_us() + ?5 * 1000
where  id = ?1
returning id, action, q, reason, created_by, created_at, starts_at, status, total, total_is_exact, done, skipped, position, newest, finished_at
