-- stat_total_sum · minutes of stat_total → the longer steps that they lie in
-- As in PostgreSQL.
-- ?1 from, ?2 up to: whole minutes; ?3 seconds of a longer step
insert into stat_total (step_s, at, outcome, run_from_ms, claims, run_ms, run_ms_max, wait_ms, wait_ms_max)
select ?3, {step_of(at, ?3)}, outcome, run_from_ms, sum(claims), sum(run_ms), max(run_ms_max), sum(wait_ms), max(wait_ms_max)
from   stat_total
where  step_s = 60 and at >= {step_of(?1, ?3)} and at < ?2
group  by 2, 3, 4
on conflict (step_s, at, outcome, run_from_ms) do update
{raise_stats(stat_total)};
select changes() as rolled
