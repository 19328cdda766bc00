-- bulk_lease · the oldest batch that nobody works on is ours for a while
-- Index: batch_open. Zero rows: there is nothing to do, or others do it.
-- $1 who, $2 lease in ms
update {schema}.batch
set    status = 'running', leased_by = $1::text, lease_ends_at = now() + $2::bigint * interval '1 millisecond',
       begun_at = coalesce(begun_at, now())
where  id = (select id from {schema}.batch
             where  status in ('waiting', 'running') and starts_at <= now() and (look_at is null or look_at <= now())
                    and (leased_by is null or leased_by = $1::text or lease_ends_at <= now())
             order  by id limit 1 for update skip locked)
returning id, action, q, reason, created_by, created_at, starts_at, status, total, total_is_exact, done, skipped, position, newest, finished_at,
       mode, over_ms, canary_job_id, look_at, stopped_because
