-- job_state · where is this job?
-- Zero rows: never accepted, cleaned away, or moving between two tables (try again).
-- ?1 job
select {waiting_state} as state
from   work_queue where id = ?1
union all
select {dispatched_state} from background_job where id = ?1
union all
select 'dead' from dead_letter where job_id = ?1 and status <> 'revived'
union all
select {ended_state}
from   execution where job_id = ?1 and final
