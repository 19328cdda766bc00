-- stat_total_roll · what ended in some minutes → stat_total, by the minute
--
-- A job that was never claimed, such as one that was cancelled while it waited, has the step -1, not a run of 0 ms.
-- As stat_roll, which comes after it in the same transaction and moves the mark.
-- Indexes: execution_completed, execution_ended, execution_tried.
-- $1 from, $2 up to: whole minutes; $3 steps of how long claims ran, in ms
with ended as materialized (
    {executions_ended($1::timestamptz, $2::timestamptz)}
),
took as (
    select date_trunc('minute', finished_at) as minute, outcome, claimed_at is null as is_unclaimed,
           {run_ms} as run_ms, {wait_ms} as wait_ms
    from   ended
),
rolled as (
    insert into {schema}.stat_total as s (step_s, at, outcome, run_from_ms, claims, run_ms, run_ms_max, wait_ms, wait_ms_max)
    select 60, minute, outcome, case when is_unclaimed then -1 else (select max(step) from unnest($3::bigint[]) step where step <= run_ms) end,
           count(*), sum(run_ms), max(run_ms), sum(wait_ms), max(wait_ms)
    from   took
    group  by 2, 3, 4
    order  by 2, 3, 4
    on conflict (step_s, at, outcome, run_from_ms) do update
    {raise_stats(s)}
    returning 1
)
select count(*) as rolled from rolled
