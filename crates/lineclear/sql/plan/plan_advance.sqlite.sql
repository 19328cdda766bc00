-- plan_advance · move manifests on: decided up to here, due again then
-- ?1 rows of manifest, planned through, next due
update manifest
set    planned_through = max(manifest.planned_through, i.planned_through), next_due_at = i.next_due_at
from   (select value ->> 0 as id, value ->> 1 as planned_through, value ->> 2 as next_due_at from json_each(?1)) i
where  manifest.id = i.id
