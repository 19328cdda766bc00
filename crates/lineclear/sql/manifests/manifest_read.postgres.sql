-- manifest_read · manifests by key, locked against planner, trigger and other editors
-- $1 keys
select m.id, m.key, m.owner, m.kind, m.route, m.input, m.group_id, g.name as group_name, m.spec, m.overlap, m.priority,
       m.retries, m.timeout_ms, m.enabled, m.held, m.next_due_at, m.planned_through, m.declared, m.on_dead,
       m.removed_at is not null as removed, m.version, now() as now
from   {schema}.manifest m
left   join {schema}.manifest_group g on g.id = m.group_id
where  m.key = any ($1::text[])
order  by m.id
for    no key update of m
