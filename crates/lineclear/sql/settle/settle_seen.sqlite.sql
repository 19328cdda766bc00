-- settle_seen · was this claim settled before, and by which node?
-- No row can be held by another transaction here, so what settle did not return is not active.
-- Index: execution_once.
-- ?1 rows of job, claim number
select e.job_id, e.claim_no, e.node, e.outcome
from   json_each(?1) i
join   execution e on e.job_id = i.value ->> 0 and e.claim_no = i.value ->> 1
