-- clean_stat_total · old rows of the statistics of all jobs
-- Index: stat_total_once.
-- $1 keep so many ms, $2 at most
with gone as (
    delete from {schema}.stat_total where (step_s, at, outcome, run_from_ms) in (
        select step_s, at, outcome, run_from_ms from {schema}.stat_total
        where  step_s in (60, 1200, 7200) and at < now() - $1::bigint * interval '1 millisecond'
        order  by step_s, at limit $2::bigint for update skip locked)
    returning 1
)
select count(*) as cleaned from gone
