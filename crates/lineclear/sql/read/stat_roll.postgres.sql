-- stat_roll · what ended in some minutes → stat_minute
--
-- Idempotent: history only grows, and rows that were cleaned meanwhile do not lower a count. Two nodes that do it at
-- once write the same rows in the same order.
-- Indexes: execution_completed, execution_ended, execution_tried.
-- $1 from, $2 up to: whole minutes
with ended as materialized (
    {executions_ended($1::timestamptz, $2::timestamptz)}
),
rolled as (
    insert into {schema}.stat_minute as s
           (minute, kind, group_id, manifest_id, outcome, claims, run_ms, run_ms_max, wait_ms, wait_ms_max)
    select minute, kind, group_id, manifest_id, outcome, count(*), sum(run_ms), max(run_ms), sum(wait_ms), max(wait_ms)
    from   (select date_trunc('minute', finished_at) as minute, kind, coalesce(group_id, 0) as group_id,
                   coalesce(manifest_id, 0) as manifest_id, outcome,
                   {run_ms} as run_ms, {wait_ms} as wait_ms
            from   ended) e
    group  by minute, kind, group_id, manifest_id, outcome
    order  by minute, kind, group_id, manifest_id, outcome
    on conflict (minute, kind, group_id, manifest_id, outcome) do update
    {raise_stats(s)}
    returning 1
),
moved as (
    update {schema}.stat_mark set through = $2::timestamptz where through < $2::timestamptz
)
select count(*) as rolled from rolled
