-- log_length · how long the logs of some claims are
-- Index: execution_log_once. A claim without a row has no log yet.
-- ?1 rows of job, claim number
select l.job_id, l.claim_no, max(l.line_no) as lines, sum(octet_length(l.target) + octet_length(l.message)) as bytes
from   json_each(?1) i
join   execution_log l on l.job_id = i.value ->> 0 and l.claim_no = i.value ->> 1
group  by l.job_id, l.claim_no
