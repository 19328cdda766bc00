-- list_executions · the claims of a job that have ended, oldest first
-- Index: execution_once.
-- ?1 job, ?2 at most, ?3 after this claim
select job_id, claim_no, final, outcome, node, (select n.name from node n where n.id = node) as node_name, output, error_type, error_message,
       fingerprint, created_at, due_at, claimed_at, started_at, finished_at
from   execution where job_id = ?1 and claim_no > ?3 order by claim_no limit ?2
