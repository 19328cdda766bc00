-- cancel · a job that waits ends here; one that runs is asked to stop
-- As in PostgreSQL.
-- ?1 jobs
delete from temp.over;
insert into temp.over (id, unique_key, limit_key, leased_by, over)
select id, unique_key, limit_key, null, 1 from work_queue where id in (select value from json_each(?1))
union all
select id, unique_key, limit_key, leased_by, leased_by is null from background_job where id in (select value from json_each(?1));
insert into execution
       (job_id, claim_no, final, outcome, {history}, input, due_at, finished_at)
select id, claim_no + 1, 1, 'cancelled', {history}, input, due_at, now_us()
from   work_queue where id in (select value from json_each(?1))
union all
select id, claim_no + 1, 1, 'cancelled', {history}, input, was_due_at, now_us()
from   background_job where id in (select value from json_each(?1)) and leased_by is null;
delete from work_queue where id in (select value from json_each(?1));
delete from background_job where id in (select value from json_each(?1)) and leased_by is null;
update background_job set cancel_requested_at = coalesce(cancel_requested_at, now_us()) where id in (select value from json_each(?1));
{free_keys((select unique_key, id from temp.over where over))};
select id, over, leased_by, limit_key from temp.over
