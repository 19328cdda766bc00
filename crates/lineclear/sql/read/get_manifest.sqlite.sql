-- get_manifest · one manifest, with its state
-- Index: manifest_key.
-- Zero rows: there is none, or it was removed.
-- ?1 key
select {manifest}, s.last_success_at, s.last_success_job_id
from   {manifest_with_state}
where  m.key = ?1 and m.removed_at is null
