-- log_length · how long the logs of some claims are
-- Index: execution_log_once. A claim without a row has no log yet.
-- $1.. job, claim number
select l.job_id, l.claim_no, max(l.line_no) as lines, sum(octet_length(l.target) + octet_length(l.message))::bigint as bytes
from   {schema}.execution_log l
join   unnest($1::bigint[], $2::bigint[]) as i (job_id, claim_no) on i.job_id = l.job_id and i.claim_no = l.claim_no
group  by l.job_id, l.claim_no
