-- manifest_read · manifests by key
-- ?1 keys
select m.id, m.key, m.owner, m.kind, m.route, m.input, m.group_id, g.name as group_name, m.spec, m.overlap, m.priority,
       m.retries, m.timeout_ms, m.enabled, m.held, m.next_due_at, m.planned_through, m.declared, m.on_dead,
       m.removed_at is not null as removed, m.version, now_us() as now
from   manifest m
left   join manifest_group g on g.id = m.group_id
where  m.key in (select value from json_each(?1))
order  by m.id
