-- bulk_lease · the oldest batch that nobody works on is ours for a while
-- As in PostgreSQL.
-- ?1 who, ?2 lease in ms
update batch
set    status = 'running', leased_by = ?1, lease_ends_at = now_us() + ?2 * 1000,
       begun_at = coalesce(begun_at, now_us())
where  id = (select id from batch
             where  status in ('waiting', 'running') and starts_at <= now_us() and (look_at is null or look_at <= now_us())
                    and (leased_by is null or leased_by = ?1 or lease_ends_at <= now_us())
             order  by id limit 1)
returning id, action, q, reason, created_by, created_at, starts_at, status, total, total_is_exact, done, skipped, position, newest, finished_at,
       mode, over_ms, canary_job_id, look_at, stopped_because
