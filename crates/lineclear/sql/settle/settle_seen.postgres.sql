-- settle_seen · was this claim settled before, and by which node?
-- Read for rows that settle did not return: the answer to an earlier settle may have been lost.
-- Index: execution_once.
-- $1.. job, claim number
select e.job_id, e.claim_no, e.node, e.outcome
from   unnest($1::bigint[], $2::bigint[]) as i (id, claim_no)
join   {schema}.execution e on e.job_id = i.id and e.claim_no = i.claim_no
