-- job_state · where is this job?
-- Zero rows: never accepted, cleaned away, or moving between two tables (try again).
-- $1 job
select {waiting_state} as state
from   {schema}.work_queue where id = $1::bigint
union all
select {dispatched_state} from {schema}.background_job where id = $1::bigint
union all
select 'dead' from {schema}.dead_letter where job_id = $1::bigint and status <> 'revived'
union all
select {ended_state}
from   {schema}.execution where job_id = $1::bigint and final
