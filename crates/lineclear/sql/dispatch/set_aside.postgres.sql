-- set_aside · a job that cannot be dispatched waits for an hour, with the reason
--
-- Out of the index that dispatch walks, so that it holds up no other job. Its rank follows its time, as that of all jobs for later:
-- promotion reads them by the difference of the two. Index: work_queue_pkey. Zero rows: the job has moved meanwhile.
-- $1 job, $2 reason
update {schema}.work_queue w
set    phase = 'later', due_at = now() + interval '1 hour', last_error = $2::text,
       rank = {rank(now() + interval '1 hour', w.priority, {group_priority(w.group_id)})}
where  id = $1::bigint and phase = 'ready'
returning id
