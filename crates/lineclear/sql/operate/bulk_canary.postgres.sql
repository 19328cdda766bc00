-- bulk_canary · the canary of a batch was looked at: the rest follows, or the batch stops, or it is looked at again
-- After a tenth of the time that it has taken so far; nobody keeps the batch meanwhile.
-- $1 batch, $2 whether the rest follows, $3 because of what it stops (null: it does not)
update {schema}.batch
set    status = case when $3::text is null then status else 'cancelled' end,
       finished_at = case when $3::text is not null then now() end, stopped_because = $3::text, leased_by = null,
       look_at = case when not $2::boolean and $3::text is null
                      then now() + least(greatest((now() - begun_at) / 10, interval '1 second'), interval '15 seconds') end
where  id = $1::bigint
returning id, action, q, reason, created_by, created_at, starts_at, status, total, total_is_exact, done, skipped, position, newest, finished_at,
       mode, over_ms, canary_job_id, look_at, stopped_because
