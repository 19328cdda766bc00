-- list_executions_last · the claims of a job that ended last, newest first
-- Index: execution_once.
-- ?1 job, ?2 at most
select job_id, claim_no, final, outcome, node, (select n.name from node n where n.id = node) as node_name, output, error_type, error_message,
       fingerprint, created_at, due_at, claimed_at, started_at, finished_at
from   execution where job_id = ?1 order by claim_no desc limit ?2
