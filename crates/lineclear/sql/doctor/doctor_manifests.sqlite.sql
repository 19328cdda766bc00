-- doctor_manifests · what the newest manifests say, without their inputs
-- The primary key, from its end: at most ?1 rows are read, however many there are.
-- ?1 at most
select o.key, o.owner, o.kind, o.route, '{}' as input, g.name as group_name, o.spec, o.overlap, o.priority, o.retries, o.timeout_ms,
       o.enabled, o.held, o.next_due_at, o.on_dead, o.removed_at is not null as removed
from   (select * from manifest where id > 0 order by id desc limit ?1) o
left   join manifest_group g on g.id = o.group_id
