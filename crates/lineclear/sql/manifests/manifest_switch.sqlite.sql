-- manifest_switch · pause or resume manifests
-- ?1 rows of id, enabled, decided up to, next due
update manifest_state
set    paused = not i.v ->> 1
from   (select value as v from json_each(?1)) i
where  manifest_state.manifest_id = i.v ->> 0;
update manifest
set    enabled = i.v ->> 1, planned_through = max(manifest.planned_through, i.v ->> 2), next_due_at = i.v ->> 3,
       version = manifest.version + 1, updated_at = now_us()
from   (select value as v from json_each(?1)) i
where  manifest.id = i.v ->> 0
returning id
