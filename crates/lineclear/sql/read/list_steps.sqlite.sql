-- list_steps · the steps of a job, in their order
-- Index: job_step_once.
-- ?1 job, ?2 at most
select name, claim_no, output, error, started_at, finished_at
from   job_step where job_id = ?1 order by turn, started_at, name limit ?2
