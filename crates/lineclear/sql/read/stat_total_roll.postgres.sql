-- stat_total_roll · what ended in some minutes → stat_total, by the minute
--
-- What nobody ever had, such as a job that was cancelled while it waited, did not run for 0 ms: it has the step -1.
-- As stat_roll, which comes after it in the same transaction and moves the mark.
-- Indexes: execution_completed, execution_ended, execution_tried.
-- $1 from, $2 up to: whole minutes; $3 steps of how long claims ran, in ms
with ended as materialized (
    select finished_at, outcome, due_at, claimed_at, started_at from {schema}.execution
    where  final and outcome = 'completed' and finished_at >= $1::timestamptz and finished_at < $2::timestamptz
    union all
    select finished_at, outcome, due_at, claimed_at, started_at from {schema}.execution
    where  final and outcome <> 'completed' and finished_at >= $1::timestamptz and finished_at < $2::timestamptz
    union all
    select finished_at, outcome, due_at, claimed_at, started_at from {schema}.execution
    where  not final and finished_at >= $1::timestamptz and finished_at < $2::timestamptz
),
took as (
    select date_trunc('minute', finished_at) as minute, outcome, claimed_at is null as is_unclaimed,
           greatest(0, coalesce(extract(epoch from finished_at - coalesce(started_at, claimed_at)) * 1000, 0))::bigint as run_ms,
           greatest(0, coalesce(extract(epoch from claimed_at - due_at) * 1000, 0))::bigint as wait_ms
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
    set    claims = excluded.claims, run_ms = excluded.run_ms, run_ms_max = excluded.run_ms_max, wait_ms = excluded.wait_ms,
           wait_ms_max = excluded.wait_ms_max
    where  excluded.claims > s.claims
    returning 1
)
select count(*) as rolled from rolled
