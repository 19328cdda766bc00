-- stat_read · statistics of a period, by step and one dimension; executions that are not rolled up yet are counted
--
-- A manifest or group that was deleted appears with its id instead of its name.
-- Indexes: stat_minute_once, execution_completed, execution_ended, execution_tried.
-- $1 from, $2 up to, $3 step in seconds, $4 by: none, kind, group, manifest or outcome, $5 at most
with mark as materialized (
    select through from {schema}.stat_mark
),
live as materialized (
    {executions_ended(greatest($1::timestamptz, (select through from mark)), $2::timestamptz)}
),
figures as (
    select minute, kind, group_id, manifest_id, outcome, claims, run_ms, run_ms_max, wait_ms, wait_ms_max
    from   {schema}.stat_minute
    where  minute >= $1::timestamptz and minute < least($2::timestamptz, (select through from mark))
    union all
    select finished_at, kind, coalesce(group_id, 0), coalesce(manifest_id, 0), outcome, 1, run_ms, run_ms, wait_ms, wait_ms
    from   live,
           lateral (select {run_ms} as run_ms, {wait_ms} as wait_ms) took
),
summed as (
    select {step_of(minute, $3::bigint)} as at,
           case $4::text when 'kind' then kind when 'outcome' then outcome when 'group' then nullif(group_id, 0)::text
                         when 'manifest' then nullif(manifest_id, 0)::text end as word,
           outcome, sum(claims)::bigint as claims, sum(run_ms)::bigint as run_ms, max(run_ms_max) as run_ms_max,
           sum(wait_ms)::bigint as wait_ms, max(wait_ms_max) as wait_ms_max
    from   figures
    group  by 1, 2, 3
)
select at, case $4::text when 'group'    then coalesce((select g.name from {schema}.manifest_group g where g.id = word::bigint), word)
                         when 'manifest' then coalesce((select m.key from {schema}.manifest m where m.id = word::bigint), word)
                         else word end as word,
       outcome, claims, run_ms, run_ms_max, wait_ms, wait_ms_max, (select through from mark) as through, now() as now
from   summed
order  by at, word nulls first, outcome
limit  $5::bigint
