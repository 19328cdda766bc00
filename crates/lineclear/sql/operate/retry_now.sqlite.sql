-- retry_now · jobs that wait for their next try are tried now
-- A missing row: it does not wait for another try.
-- ?1 jobs
update work_queue
set    due_at = now_us(), phase = 'ready',
       rank = now_us() - (priority + coalesce((select g.priority from manifest_group g where g.id = group_id), 0)) * 600000000
where  id in (select value from json_each(?1)) and phase = 'later' and claim_no > 0
returning id
