-- tick_skip · a tick that could not be queued after all becomes a recorded skip
-- ?1 reason, ?2 rows of manifest, tick
update tick
set    job_id = null, skip_reason = ?1
from   (select value ->> 0 as manifest_id, value ->> 1 as tick_at from json_each(?2)) i
where  tick.manifest_id = i.manifest_id and tick.tick_at = i.tick_at and tick.job_id is not null
