-- tick_shorten · skipped ranges end earlier, because ticks of them were backfilled
-- ?1 rows of manifest, first tick of the range, its new last one
update tick
set    until_tick_at = i.v ->> 2
from   (select value as v from json_each(?1)) i
where  tick.manifest_id = i.v ->> 0 and tick.tick_at = i.v ->> 1 and tick.skip_reason is not null
