-- list_executions · the claims of a job that have ended, oldest first
-- Index: execution_once.
-- $1 job, $2 at most, $3 after this claim
select job_id, claim_no, final, outcome, node, (select n.name from {schema}.node n where n.id = node) as node_name, output, error_type, error_message,
       fingerprint, created_at, due_at, claimed_at, started_at, finished_at
from   {schema}.execution where job_id = $1::bigint and claim_no > $3::bigint order by claim_no limit $2::bigint
