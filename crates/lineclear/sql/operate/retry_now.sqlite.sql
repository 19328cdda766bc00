-- retry_now · jobs that wait for their next try are tried now
-- A missing row: it does not wait for another try.
-- ?1 jobs
update work_queue
set    due_at = now_us(), phase = 'ready',
       rank = {rank(now_us(), priority, {group_priority(group_id)})}
where  id in (select value from json_each(?1)) and phase = 'later' and claim_no > 0
returning id
