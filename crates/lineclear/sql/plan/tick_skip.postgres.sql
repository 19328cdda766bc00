-- tick_skip · a tick that could not be queued after all becomes a recorded skip
-- Index: tick_once.
-- $1 reason, $2.. manifest, tick
update {schema}.tick as t
set    job_id = null, skip_reason = $1::text
from   unnest($2::bigint[], $3::timestamptz[]) as i (manifest_id, tick_at)
where  t.manifest_id = i.manifest_id and t.tick_at = i.tick_at and t.job_id is not null
