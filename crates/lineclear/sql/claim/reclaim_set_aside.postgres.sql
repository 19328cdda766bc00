-- reclaim_set_aside · a claim that cannot be taken back is left alone for an hour, with the reason
--
-- It holds up no other claim meanwhile. Index: background_job_pkey. Zero rows: it has ended meanwhile.
-- $1 job, $2 reason
update {schema}.background_job
set    due_at = now() + interval '1 hour',
       deadline_at = case when deadline_at is not null then now() + interval '1 hour' end,
       last_error = $2::text
where  id = $1::bigint and (due_at <= now() or deadline_at <= now())
returning id
