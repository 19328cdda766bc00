-- list_log_last · what a job's handlers logged last, newest line first
-- Index: execution_log_once.
-- $1 job, $2 at most
select claim_no, line_no, logged_at, level, target, message
from   {schema}.execution_log
where  job_id = $1::bigint
order  by claim_no desc, line_no desc limit $2::bigint
