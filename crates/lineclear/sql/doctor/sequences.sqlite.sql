-- sequences · the number that each sequence gave last, and the highest id that is in use
-- SQLite computes all other ids from its tables.
select 'job_id' as name, j.last,
       max((select coalesce(max(id), 0) from work_queue), (select coalesce(max(id), 0) from background_job),
           (select coalesce(max(job_id), 0) from dead_letter), (select coalesce(max(job_id), 0) from execution)) as highest
from   job_id j
