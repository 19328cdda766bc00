-- plan_due · manifests whose next tick has come, locked
--
-- SKIP LOCKED: a manifest that is being edited or triggered is planned in the next cycle.
-- Index: manifest_due; the cost is that of the due ones, however many manifests there are. Zero rows: nothing is due.
-- $1 at most
select {m.job_template}, m.spec, m.planned_through, coalesce(g.enabled, true) as group_enabled, now() as now
from   {schema}.manifest m
left   join {schema}.manifest_group g on g.id = m.group_id
where  m.enabled and not m.held and m.next_due_at <= now()
order  by m.next_due_at, m.id
limit  $1::bigint
for    no key update of m skip locked
