-- log_write · log lines of running jobs, many at once; fenced by (job, claim number)
--
-- Takes no lock: a line that arrives while the job is being taken away is harmless, because it carries its claim number.
-- The last line of a full log says how many were dropped, and is written again when that has changed.
-- $1.. job, claim number, line number, time, level, target, message
insert into {schema}.execution_log (job_id, claim_no, line_no, logged_at, level, target, message)
select i.job_id, i.claim_no, i.line_no, i.logged_at, i.level, i.target, i.message
from   unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::timestamptz[], $5::text[], $6::text[], $7::text[])
       as i (job_id, claim_no, line_no, logged_at, level, target, message)
join   {schema}.background_job b on b.id = i.job_id and b.claim_no = i.claim_no and b.leased_by is not null
on     conflict (job_id, claim_no, line_no) do update set logged_at = excluded.logged_at, message = excluded.message
