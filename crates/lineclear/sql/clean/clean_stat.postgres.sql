-- clean_stat · old rows of statistics by the minute
-- Index: stat_minute_once.
-- $1 keep so many ms, $2 at most
with gone as (
    delete from {schema}.stat_minute where (minute, kind, group_id, manifest_id, outcome) in (
        select minute, kind, group_id, manifest_id, outcome from {schema}.stat_minute
        where  minute < now() - $1::bigint * interval '1 millisecond'
        order  by minute limit $2::bigint for update skip locked)
    returning 1
)
select count(*) as cleaned from gone
