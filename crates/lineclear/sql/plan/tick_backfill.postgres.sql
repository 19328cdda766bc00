-- tick_backfill · ticks that did not run are claimed after all; only the planner that gets a row back may queue a job for it
--
-- A skip becomes the job. If the row stood for a range of skips, the caller writes the rest of it again.
-- Index: tick_once. A missing row: that tick has a job.
-- $1.. manifest, tick
insert into {schema}.tick as t (manifest_id, tick_at, job_id)
select i.manifest_id, i.tick_at, nextval('{schema}.job_id')
from   (select * from unnest($1::bigint[], $2::timestamptz[]) as i (manifest_id, tick_at) order by tick_at) i
on conflict (manifest_id, tick_at) do update
set    job_id = excluded.job_id, skip_reason = null, until_tick_at = null
where  t.job_id is null
returning t.tick_at, t.job_id
