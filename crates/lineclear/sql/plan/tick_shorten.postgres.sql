-- tick_shorten · skipped ranges end earlier, because ticks of them were backfilled
-- Index: tick_once.
-- $1.. manifest, first tick of the range, its new last one
update {schema}.tick as t
set    until_tick_at = i.until_tick_at
from   unnest($1::bigint[], $2::timestamptz[], $3::timestamptz[]) as i (manifest_id, tick_at, until_tick_at)
where  t.manifest_id = i.manifest_id and t.tick_at = i.tick_at and t.skip_reason is not null
