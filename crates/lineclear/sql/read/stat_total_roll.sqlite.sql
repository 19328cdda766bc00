-- stat_total_roll · what ended in some minutes → stat_total, by the minute
-- As in PostgreSQL. Indexes: execution_completed, execution_ended, execution_tried.
-- ?1 from, ?2 up to: whole minutes; ?3 steps of how long claims ran, in ms
insert into stat_total (step_s, at, outcome, run_from_ms, claims, run_ms, run_ms_max, wait_ms, wait_ms_max)
select 60, minute, outcome, case when is_unclaimed then -1 else (select max(step.value) from json_each(?3) step where step.value <= run_ms) end, count(*), sum(run_ms), max(run_ms),
       sum(wait_ms), max(wait_ms)
from  (select finished_at / 60000000 * 60000000 as minute, outcome, claimed_at is null as is_unclaimed,
              {run_ms} as run_ms, {wait_ms} as wait_ms
       from  ({executions_ended(?1, ?2)}))
where  true
group  by 2, 3, 4
on conflict (step_s, at, outcome, run_from_ms) do update
{raise_stats(stat_total)};
select changes() as rolled
