-- overdue_accepted · jobs that submitters have accepted, and whose time is over
-- Index: background_job_deadline. Zero rows: none.
-- $1 the rows of the submitters in node, $2 deadlines before this moment, $3 and not before this one (null: whenever), $4 at most
select id, claim_no, leased_by
from   {schema}.background_job
where  deadline_at <= least(now(), $2::timestamptz) and deadline_at >= coalesce($3::timestamptz, '-infinity')
       and leased_by = any ($1::bigint[])
order  by deadline_at
limit  $4::bigint
