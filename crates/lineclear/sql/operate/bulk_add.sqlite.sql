-- bulk_add · a new bulk operation, for the jobs that exist now
-- As in PostgreSQL.
-- ?1 action, ?2 query, ?3 reason, ?4 by whom, ?5 starts in ms, ?6 how many, ?7 whether that is exact, ?8 mode, ?9 over ms
delete from bulk_operation where finished_at < now_us() - 30 * 86400000000;
insert into bulk_operation (action, q, reason, created_by, created_at, starts_at, total, total_is_exact, position, newest, mode, over_ms)
select ?1, ?2, ?3, ?4, now_us(), now_us() + ?5 * 1000, ?6, ?7, n.newest + 1, n.newest, ?8, ?9
from  (select max(coalesce((select max(id) from work_queue), 0), coalesce((select max(id) from background_job), 0),
                  coalesce((select max(job_id) from dead_letter), 0), coalesce((select max(job_id) from execution), 0)) as newest) n
returning {bulk_operation}
