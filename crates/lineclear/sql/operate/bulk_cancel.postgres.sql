-- bulk_cancel · a batch goes no further
-- Zero rows: it is over, or there is none.
-- $1 batch, $2 because (null: a person said so)
update {schema}.batch set status = 'cancelled', finished_at = now(), stopped_because = $2::text
where  id = $1::bigint and status in ('waiting', 'running')
returning id, action, q, reason, created_by, created_at, starts_at, status, total, total_is_exact, done, skipped, position, newest, finished_at,
       mode, over_ms, canary_job_id, look_at, stopped_because
