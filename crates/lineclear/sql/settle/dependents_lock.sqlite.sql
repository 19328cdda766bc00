-- dependents_lock · the dependents of manifests that just completed, with what they wait for
-- ?1 manifests with a completed job
select {m.job_template}, m.spec, m.enabled, m.held, coalesce(g.enabled, 1) as group_enabled, s.arrived, s.round, s.last_turn_at, now_us() as now,
       (select group_concat(p.parent_id, ',') from manifest_parent p where p.child_id = m.id) as parents
from   {manifest_with_state}
where  m.id in (select child_id from manifest_parent where parent_id in (select value from json_each(?1)))
order  by m.id
