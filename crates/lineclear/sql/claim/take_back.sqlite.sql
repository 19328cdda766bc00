-- take_back · a node that was taken for dead takes back the crashes that its lost claims were charged with
-- As in PostgreSQL; there is one writer, so nothing is left for later.
-- ?1 node, ?2 rows of job, claim number
delete from temp.picked;
insert into temp.picked (id, marked)
select e.job_id, count(*)
from   json_each(?2) i cross join execution e on e.job_id = i.value ->> 0 and e.claim_no = i.value ->> 1
where  e.node = ?1 and e.outcome = 'lost' and e.error_type = 'worker_lost'
       and (exists (select 1 from work_queue w where w.id = e.job_id) or exists (select 1 from background_job b where b.id = e.job_id))
group  by e.job_id;
update work_queue
set    crashes = max(crashes - (select p.marked from temp.picked p where p.id = work_queue.id), 0)
where  id in (select id from temp.picked);
update background_job
set    crashes = max(crashes - (select p.marked from temp.picked p where p.id = background_job.id), 0)
where  id in (select id from temp.picked);
update execution
set    error_type = 'worker_late', error_message = 'the worker was taken for dead, and came back'
from   json_each(?2) i
where  execution.job_id = i.value ->> 0 and execution.claim_no = i.value ->> 1 and execution.node = ?1
       and execution.outcome = 'lost' and execution.error_type = 'worker_lost' and execution.job_id in (select id from temp.picked);
select i.value ->> 0 as id, i.value ->> 1 as claim_no,
       iif(i.value ->> 0 in (select id from temp.picked), 'taken_back', 'none') as status
from   json_each(?2) i
order  by 1, 2
