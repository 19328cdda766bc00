-- manifest_update · update manifests
-- Restores removed ones. The hold is decided again, because on_dead may have changed. Index: dead_letter_manifest.
-- ?1 rows of id and columns
update manifest_state
set    paused = not i.v ->> 11
from   (select value as v from json_each(?1)) i
where  manifest_state.manifest_id = i.v ->> 0;
update manifest
set    owner = i.v ->> 1, kind = i.v ->> 2, route = i.v ->> 3, input = i.v ->> 4, group_id = i.v ->> 5, spec = i.v ->> 6,
       overlap = i.v ->> 7, priority = i.v ->> 8, retries = i.v ->> 9, timeout_ms = i.v ->> 10, enabled = i.v ->> 11,
       next_due_at = i.v ->> 12, planned_through = max(manifest.planned_through, i.v ->> 13), declared = i.v ->> 14,
       on_dead = i.v ->> 15, backoff = i.v ->> 16, tags = i.v ->> 17, removed_at = null,
       held = (i.v ->> 15 = 'hold'
               and exists (select 1 from dead_letter d where d.manifest_id = manifest.id and d.status = 'awaiting')),
       version = manifest.version + 1, updated_at = now_us()
from   (select value as v from json_each(?1)) i
where  manifest.id = i.v ->> 0
returning id, key, version
