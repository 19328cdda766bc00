-- stat_roll · what ended in some minutes → stat_minute
--
-- Doing it again changes nothing: history only grows, and what was cleaned meanwhile does not lower a figure. Two nodes that do it at
-- once write the same, in the same order.
-- Indexes: execution_completed, execution_ended, execution_tried.
-- $1 from, $2 up to: whole minutes
with ended as materialized (
    select finished_at, kind, group_id, manifest_id, outcome, due_at, claimed_at, started_at from {schema}.execution
    where  final and outcome = 'completed' and finished_at >= $1::timestamptz and finished_at < $2::timestamptz
    union all
    select finished_at, kind, group_id, manifest_id, outcome, due_at, claimed_at, started_at from {schema}.execution
    where  final and outcome <> 'completed' and finished_at >= $1::timestamptz and finished_at < $2::timestamptz
    union all
    select finished_at, kind, group_id, manifest_id, outcome, due_at, claimed_at, started_at from {schema}.execution
    where  not final and finished_at >= $1::timestamptz and finished_at < $2::timestamptz
),
rolled as (
    insert into {schema}.stat_minute as s
           (minute, kind, group_id, manifest_id, outcome, claims, run_ms, run_ms_max, wait_ms, wait_ms_max)
    select minute, kind, group_id, manifest_id, outcome, count(*), sum(run_ms), max(run_ms), sum(wait_ms), max(wait_ms)
    from   (select date_trunc('minute', finished_at) as minute, kind, coalesce(group_id, 0) as group_id,
                   coalesce(manifest_id, 0) as manifest_id, outcome,
                   greatest(0, coalesce(extract(epoch from finished_at - coalesce(started_at, claimed_at)) * 1000, 0))::bigint as run_ms,
                   greatest(0, coalesce(extract(epoch from claimed_at - due_at) * 1000, 0))::bigint as wait_ms
            from   ended) e
    group  by minute, kind, group_id, manifest_id, outcome
    order  by minute, kind, group_id, manifest_id, outcome
    on conflict (minute, kind, group_id, manifest_id, outcome) do update
    set    claims = excluded.claims, run_ms = excluded.run_ms, run_ms_max = excluded.run_ms_max, wait_ms = excluded.wait_ms,
           wait_ms_max = excluded.wait_ms_max
    where  excluded.claims > s.claims
    returning 1
),
moved as (
    update {schema}.stat_mark set through = $2::timestamptz where through < $2::timestamptz
)
select count(*) as rolled from rolled
