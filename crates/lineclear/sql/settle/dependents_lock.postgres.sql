-- dependents_lock · the dependents of manifests that just completed, with what they wait for
-- The caller holds the children's state rows, so `arrived` is the newest.
-- Index: manifest_parent's key. Zero rows: they have no dependents.
-- $1 manifests with a completed job
select {m.job_template}, m.spec, m.enabled, m.held, coalesce(g.enabled, true) as group_enabled, s.arrived, s.round, s.last_turn_at, now() as now,
       (select string_agg(p.parent_id::text, ',' order by p.parent_id) from {schema}.manifest_parent p
        where  p.child_id = m.id) as parents
from   {manifest_with_state}
where  m.id = any (array (select child_id from {schema}.manifest_parent where parent_id = any ($1::bigint[])))
order  by m.id
