-- stat_total_sum · minutes of stat_total → the longer steps that they lie in
--
-- Comes after stat_total_roll in the same transaction. The last step grows until it is over.
-- Index: stat_total_once.
-- $1 from, $2 up to: whole minutes; $3 seconds of a longer step
with rolled as (
    insert into {schema}.stat_total as s (step_s, at, outcome, run_from_ms, claims, run_ms, run_ms_max, wait_ms, wait_ms_max)
    select $3::bigint, {step_of(at, $3::bigint)}, outcome, run_from_ms, sum(claims), sum(run_ms),
           max(run_ms_max), sum(wait_ms), max(wait_ms_max)
    from   {schema}.stat_total
    where  step_s = 60 and at >= {step_of($1::timestamptz, $3::bigint)} and at < $2::timestamptz
    group  by 2, 3, 4
    order  by 2, 3, 4
    on conflict (step_s, at, outcome, run_from_ms) do update
    {raise_stats(s)}
    returning 1
)
select count(*) as rolled from rolled
