-- bulk_add · something is to be done to many jobs: to those that exist now
-- What ended a month ago is forgotten on the way.
-- $1 action, $2 query, $3 reason, $4 by whom, $5 starts in ms, $6 how many, $7 whether that is exact, $8 mode, $9 over ms
with forgotten as (
    delete from {schema}.batch where finished_at < now() - interval '30 days'
)
insert into {schema}.batch (action, q, reason, created_by, starts_at, total, total_is_exact, position, newest, mode, over_ms)
select $1::text, $2::text, $3::text, $4::text, now() + $5::bigint * interval '1 millisecond', $6::bigint, $7::boolean, n.newest + 1, n.newest,
       $8::text, $9::bigint
from  (select greatest((select max(id) from {schema}.work_queue), (select max(id) from {schema}.background_job),
                       (select max(job_id) from {schema}.dead_letter), (select max(job_id) from {schema}.execution), 0) as newest) n
returning id, action, q, reason, created_by, created_at, starts_at, status, total, total_is_exact, done, skipped, position, newest, finished_at,
       mode, over_ms, canary_job_id, look_at, stopped_because
