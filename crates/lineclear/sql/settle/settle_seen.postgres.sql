-- settle_seen · was this claim settled before, and by which node; or is it still active?
-- Asked for rows that settle did not return: the answer to an earlier settle may have been lost on the way, or another transaction
-- holds the row (outcome null).
-- Indexes: execution_once, background_job_pkey.
-- $1.. job, claim number
select e.job_id, e.claim_no, e.node, e.outcome
from   unnest($1::bigint[], $2::bigint[]) as i (id, claim_no)
join   {schema}.execution e on e.job_id = i.id and e.claim_no = i.claim_no
union all
select b.id, b.claim_no, b.leased_by, null
from   unnest($1::bigint[], $2::bigint[]) as i (id, claim_no)
join   {schema}.background_job b on b.id = i.id and b.claim_no = i.claim_no
