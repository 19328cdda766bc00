-- list_executions · the claims of a job that have ended, oldest first
-- Index: execution_once.
-- $1 job, $2 at most, $3 after this claim
select {execution}
from   {schema}.execution where job_id = $1::bigint and claim_no > $3::bigint order by claim_no limit $2::bigint
