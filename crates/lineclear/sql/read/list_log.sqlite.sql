-- list_log · what a job's handlers logged, oldest claim first
-- Index: execution_log_once.
-- ?1 job, ?2 after this claim, ?3 and this line of it, ?4 at most
select claim_no, line_no, logged_at, level, target, message
from   execution_log
where  job_id = ?1 and (claim_no, line_no) > (?2, ?3)
order  by claim_no, line_no limit ?4
