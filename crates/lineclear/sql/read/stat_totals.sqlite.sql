-- stat_totals · statistics of all jobs over a period, by step and duration; executions that are not rolled up yet are counted
-- As in PostgreSQL. Indexes: execution_completed, execution_ended, execution_tried.
-- ?1 from, ?2 up to, ?3 step in seconds, ?4 steps of how long claims ran, in ms; ?5 seconds of the rows that are read: they fit into the step
select {step_of(began, ?3)} as at, outcome, run_from_ms, sum(claims) as claims, sum(run_ms) as run_ms,
       max(run_ms_max) as run_ms_max, sum(wait_ms) as wait_ms, max(wait_ms_max) as wait_ms_max
from  (select at as began, outcome, run_from_ms, claims, run_ms, run_ms_max, wait_ms, wait_ms_max
       from   stat_total where step_s = ?5 and at >= ?1 and at < min(?2, (select through from stat_mark))
       union all
       select finished_at, outcome, case when claimed_at is null then -1 else (select max(step.value) from json_each(?4) step where step.value <= run_ms) end, 1, run_ms, run_ms, wait_ms, wait_ms
       from  (select finished_at, outcome, claimed_at, {run_ms} as run_ms, {wait_ms} as wait_ms
              from  ({executions_ended(max(?1, (select through from stat_mark)), ?2)})))
group  by 1, 2, 3
order  by 1, 2, 3
