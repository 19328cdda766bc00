-- overdue_accepted · jobs that submitters have accepted, and whose time is over
-- As in PostgreSQL. Index: background_job_deadline.
-- ?1 the rows of the submitters in node, ?2 deadlines before this moment, ?3 and not before this one (null: whenever), ?4 at most
select id, claim_no, leased_by
from   background_job
where  deadline_at <= min(now_us(), ?2) and deadline_at >= coalesce(?3, 0)
       and leased_by in (select value from json_each(?1))
order  by deadline_at
limit  ?4
