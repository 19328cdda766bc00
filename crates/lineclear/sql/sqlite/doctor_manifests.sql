-- doctor_manifests · what the newest manifests say, without their inputs
-- The primary key, from its end: at most ?1 rows are read, however many there are.
-- ?1 at most
select m.key, m.owner, m.kind, m.route, '{}' as input, g.name as group_name, m.spec, m.overlap, m.priority, m.retries, m.timeout_ms,
       m.enabled, m.held, m.next_due_at, m.on_dead, m.removed_at is not null as removed
from   (select * from manifest order by id desc limit ?1) m
left   join manifest_group g on g.id = m.group_id
