-- clean_tick · ledger rows that are too old to be backfilled
-- The planner never needs them again: planned_through does not go back. Index: tick_old.
-- $1 keep so many ms, $2 at most
with gone as (
    delete from {schema}.tick t
    using  (select manifest_id, tick_at from {schema}.tick
            where  tick_at < now() - $1::bigint * interval '1 millisecond'
                   and coalesce(until_tick_at, tick_at) < now() - $1::bigint * interval '1 millisecond'
            order  by tick_at limit $2::bigint for update skip locked) old
    where  t.manifest_id = old.manifest_id and t.tick_at = old.tick_at
    returning 1
)
select count(*) as cleaned from gone
