-- finished_jobs · which of these jobs are over, and how
-- Indexes: execution_final, dead_letter_job. Zero rows: none is over yet.
-- ?1 jobs
select e.job_id as id, iif(e.outcome = 'completed', 'completed', 'cancelled') as state
from   json_each(?1) i cross join execution e on e.job_id = i.value and e.final
union all
select d.job_id, 'dead' from json_each(?1) i cross join dead_letter d on d.job_id = i.value and d.status <> 'revived'
