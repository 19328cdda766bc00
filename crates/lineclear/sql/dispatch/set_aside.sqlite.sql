-- set_aside · a job that cannot be dispatched waits for an hour, with the reason
-- As in PostgreSQL.
-- ?1 job, ?2 reason
update work_queue
set    phase = 'later', due_at = now_us() + 3600000000, last_error = ?2,
       rank = {rank((now_us() + 3600000000), priority, {group_priority(group_id)})}
where  id = ?1 and phase = 'ready'
returning id
