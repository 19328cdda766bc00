-- tick_backfill · ticks that did not run are claimed after all; only the planner that gets a row back may queue a job for it
-- A skip becomes the job. If the row stood for a range of skips, the caller writes the rest of it again.
-- ?1 rows of manifest, tick
insert into tick (manifest_id, tick_at, job_id)
select value ->> 0, value ->> 1, (select last from job_id) + row_number() over (order by value ->> 1)
from   json_each(?1)
where  true
on conflict (manifest_id, tick_at) do update
set    job_id = excluded.job_id, skip_reason = null, until_tick_at = null
where  tick.job_id is null
returning tick_at, job_id;
update job_id set last = last + json_array_length(?1)
