-- list_manifests · a page of manifests by key, with how they fared
-- Index: manifest_key.
-- ?1 after this key, ?2 at most
select m.id, m.key, m.owner, m.kind, m.route, m.input, g.name as group_name, m.spec, m.overlap, m.priority, m.retries,
       m.timeout_ms, m.enabled, m.held, m.next_due_at, m.planned_through, m.on_dead, m.version, s.last_success_at, s.last_success_job_id
from   manifest m
join   manifest_state s on s.manifest_id = m.id
left   join manifest_group g on g.id = m.group_id
where  m.key > ?1 and m.removed_at is null
order  by m.key limit ?2
