-- list_manifests · a page of manifests by key, with their states
-- Index: manifest_key.
-- ?1 after this key, ?2 at most
select {manifest}, s.last_success_at, s.last_success_job_id
from   {manifest_with_state}
where  m.key > ?1 and m.removed_at is null
order  by m.key limit ?2
