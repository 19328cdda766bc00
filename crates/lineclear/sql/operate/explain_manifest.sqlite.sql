-- explain_manifest · what decides whether a manifest makes a job
-- Index: manifest_key. Zero rows: there is none, or it was removed.
-- ?1 key
select m.id, m.key, m.owner, m.kind, m.route, m.input, m.group_id, g.name as group_name, m.spec, m.overlap, m.priority, m.retries,
       m.timeout_ms, m.enabled, m.held, m.next_due_at, m.planned_through, m.on_dead, m.version, s.arrived, now_us() as now
from   manifest m
join   manifest_state s on s.manifest_id = m.id
left   join manifest_group g on g.id = m.group_id
where  m.key = ?1 and m.removed_at is null
