-- stat_totals · statistics of all jobs over a period, by step and duration; executions that are not rolled up yet are counted
--
-- Indexes: stat_total_once, execution_completed, execution_ended, execution_tried.
-- $1 from, $2 up to, $3 step in seconds, $4 steps of how long claims ran, in ms; $5 seconds of the rows that are read: they fit into the step
with mark as materialized (
    select through from {schema}.stat_mark
),
live as materialized (
    {executions_ended(greatest($1::timestamptz, (select through from mark)), $2::timestamptz)}
),
figures as (
    select at, outcome, run_from_ms, claims, run_ms, run_ms_max, wait_ms, wait_ms_max
    from   {schema}.stat_total
    where  step_s = $5::bigint and at >= $1::timestamptz and at < least($2::timestamptz, (select through from mark))
    union all
    select finished_at, outcome, case when claimed_at is null then -1 else (select max(step) from unnest($4::bigint[]) step where step <= run_ms) end, 1, run_ms, run_ms, wait_ms, wait_ms
    from   live,
           lateral (select {run_ms} as run_ms, {wait_ms} as wait_ms) took
)
select {step_of(figures.at, $3::bigint)} as at, outcome, run_from_ms, sum(claims)::bigint as claims,
       sum(run_ms)::bigint as run_ms, max(run_ms_max) as run_ms_max, sum(wait_ms)::bigint as wait_ms, max(wait_ms_max) as wait_ms_max
from   figures
group  by 1, 2, 3
order  by 1, 2, 3
