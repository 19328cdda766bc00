-- job_state · where is this job?
-- Zero rows: it is on its way between two tables, or was never accepted, or was cleaned away.
-- ?1 job
select case when phase in ('held', 'parked') then phase
            when phase = 'later' and claim_no > 0 then 'retrying'
            when phase = 'later' then 'scheduled' else 'queued' end as state
from   work_queue where id = ?1
union all
select case when leased_by is null then 'ready' else 'running' end from background_job where id = ?1
union all
select 'dead' from dead_letter where job_id = ?1 and status <> 'revived'
union all
select case when outcome = 'completed' then 'completed' else 'cancelled' end
from   execution where job_id = ?1 and final
