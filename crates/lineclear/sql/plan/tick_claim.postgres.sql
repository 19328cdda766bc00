-- tick_claim · write ticks into the ledger; only the planner that gets a row back may queue a job for it
--
-- This, not the lock, makes a tick once: two planners that both think a tick is theirs meet in the primary key.
-- Index: tick_once. A missing row: the tick was decided before.
-- $1.. manifest, tick, last tick of a skipped range, why skipped (null: it fires, and an id is drawn)
insert into {schema}.tick (manifest_id, tick_at, until_tick_at, job_id, skip_reason)
select i.manifest_id, i.tick_at, i.until_tick_at,
       case when i.skip_reason is null then nextval('{schema}.job_id') end, i.skip_reason
from   unnest($1::bigint[], $2::timestamptz[], $3::timestamptz[], $4::text[])
       as i (manifest_id, tick_at, until_tick_at, skip_reason)
order  by i.manifest_id, i.tick_at
on conflict (manifest_id, tick_at) do nothing
returning manifest_id, tick_at, job_id
