-- explain_manifest · what decides whether a manifest makes a job
-- Index: manifest_key. Zero rows: there is none, or it was removed.
-- ?1 key
select {manifest}, s.arrived, now_us() as now
from   {manifest_with_state}
where  m.key = ?1 and m.removed_at is null
