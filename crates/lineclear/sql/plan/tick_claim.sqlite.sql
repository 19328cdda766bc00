-- tick_claim · write ticks into the ledger; only the planner that gets a row back may queue a job for it
-- ?1 rows of manifest, tick, last tick of a skipped range, why skipped
insert into tick (manifest_id, tick_at, until_tick_at, job_id, skip_reason)
select value ->> 0, value ->> 1, value ->> 2,
       iif(value ->> 3 is null, (select last from job_id) + row_number() over (order by value ->> 0, value ->> 1), null),
       value ->> 3
from   json_each(?1)
where  true
order  by value ->> 0, value ->> 1
on conflict (manifest_id, tick_at) do nothing
returning manifest_id, tick_at, job_id;
update job_id set last = last + json_array_length(?1)
