-- bulk_add · a new bulk operation, for the jobs that exist now
-- Deletes bulk operations that ended 30 days ago.
-- $1 action, $2 query, $3 reason, $4 by whom, $5 starts in ms, $6 how many, $7 whether that is exact, $8 mode, $9 over ms
with forgotten as (
    delete from {schema}.bulk_operation where finished_at < now() - interval '30 days'
)
insert into {schema}.bulk_operation (action, q, reason, created_by, starts_at, total, total_is_exact, position, newest, mode, over_ms)
select $1::text, $2::text, $3::text, $4::text, now() + $5::bigint * interval '1 millisecond', $6::bigint, $7::boolean, n.newest + 1, n.newest,
       $8::text, $9::bigint
from  (select greatest((select max(id) from {schema}.work_queue), (select max(id) from {schema}.background_job),
                       (select max(job_id) from {schema}.dead_letter), (select max(job_id) from {schema}.execution), 0) as newest) n
returning {bulk_operation}
