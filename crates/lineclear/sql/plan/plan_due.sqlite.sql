-- plan_due · manifests whose next tick has come
-- Index: manifest_due.
-- ?1 at most
select {m.job_template}, m.spec, m.planned_through, coalesce(g.enabled, 1) as group_enabled, now_us() as now
from   manifest m
left   join manifest_group g on g.id = m.group_id
where  m.enabled and not m.held and m.next_due_at is not null and m.next_due_at <= now_us()
order  by m.next_due_at, m.id
limit  ?1
