-- retry_now · jobs that wait for their next try are tried now
-- A missing row: it does not wait for another try.
-- $1 jobs
update {schema}.work_queue as w
set    due_at = now(), phase = 'ready',
       rank = {rank(now(), w.priority, {group_priority(w.group_id)})}
where  w.id = any (array (
           select id from {schema}.work_queue
           where  id = any ($1::bigint[]) and phase = 'later' and claim_no > 0
           order  by id for no key update))
returning w.id
