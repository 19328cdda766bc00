-- list_executions_last · the claims of a job that ended last, newest first
-- Index: execution_once.
-- $1 job, $2 at most
select {execution}
from   {schema}.execution where job_id = $1::bigint order by claim_no desc limit $2::bigint
