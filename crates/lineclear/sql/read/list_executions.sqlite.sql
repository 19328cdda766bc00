-- list_executions · the claims of a job that have ended, oldest first
-- Index: execution_once.
-- ?1 job, ?2 at most, ?3 after this claim
select {execution}
from   execution where job_id = ?1 and claim_no > ?3 order by claim_no limit ?2
