-- finished_jobs · which of these jobs are over, and how
-- Indexes: execution_final, dead_letter_job. Zero rows: none is over yet.
-- $1 jobs
select job_id as id, {ended_state} as state
from   {schema}.execution where job_id = any ($1::bigint[]) and final
union all
select job_id, 'dead' from {schema}.dead_letter where job_id = any ($1::bigint[]) and status <> 'revived'
