-- dependents_lock · the dependents of manifests that just completed, with what they wait for
-- ?1 manifests with a completed job
select m.id, m.key, m.kind, m.route, m.input, m.group_id, m.spec, m.overlap, m.priority, m.retries, m.timeout_ms,
       m.enabled, m.held, coalesce(g.enabled, 1) as group_enabled, s.arrived, s.round, s.last_turn_at, now_us() as now,
       (select group_concat(p.parent_id, ',') from manifest_parent p where p.child_id = m.id) as parents
from   manifest m
join   manifest_state s on s.manifest_id = m.id
left   join manifest_group g on g.id = m.group_id
where  m.id in (select child_id from manifest_parent where parent_id in (select value from json_each(?1)))
order  by m.id
