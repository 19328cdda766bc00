-- reclaim_set_aside · a claim that cannot be taken back is left alone for an hour, with the reason
-- As in PostgreSQL.
-- ?1 job, ?2 reason
update background_job
set    due_at = now_us() + 3600000000,
       deadline_at = iif(deadline_at is not null, now_us() + 3600000000, null),
       last_error = ?2
where  id = ?1 and (due_at <= now_us() or deadline_at <= now_us())
returning id
