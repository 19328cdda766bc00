-- log_write · log lines of running jobs, many at once; fenced by (job, claim number)
-- As in PostgreSQL.
-- ?1 rows of job, claim number, line number, time, level, target, message
insert into execution_log (job_id, claim_no, line_no, logged_at, level, target, message)
select i.value ->> 0, i.value ->> 1, i.value ->> 2, i.value ->> 3, i.value ->> 4, i.value ->> 5, i.value ->> 6
from   json_each(?1) i
join   background_job b on b.id = i.value ->> 0 and b.claim_no = i.value ->> 1 and b.leased_by is not null
where  true
on     conflict (job_id, claim_no, line_no) do update set logged_at = excluded.logged_at, message = excluded.message
