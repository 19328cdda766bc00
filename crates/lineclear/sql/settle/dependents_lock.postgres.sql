-- dependents_lock · the dependents of manifests that just completed, with what they wait for
-- The caller holds the children's state rows, so `arrived` is the newest.
-- Index: manifest_parent's key. Zero rows: nobody depends on them.
-- $1 manifests with a completed job
select m.id, m.key, m.kind, m.route, m.input, m.group_id, m.spec, m.overlap, m.priority, m.retries, m.timeout_ms,
       m.enabled, m.held, coalesce(g.enabled, true) as group_enabled, s.arrived, s.round, s.last_turn_at, now() as now,
       (select string_agg(p.parent_id::text, ',' order by p.parent_id) from {schema}.manifest_parent p
        where  p.child_id = m.id) as parents
from   {schema}.manifest m
join   {schema}.manifest_state s on s.manifest_id = m.id
left   join {schema}.manifest_group g on g.id = m.group_id
where  m.id = any (array (select child_id from {schema}.manifest_parent where parent_id = any ($1::bigint[])))
order  by m.id
