-- list_upcoming · manifests whose next tick comes soon, the next first
-- Index: manifest_due.
-- $1 within so many µs, $2 at most
select m.key, m.kind, m.next_due_at, (select g.name from {schema}.manifest_group g where g.id = m.group_id) as group_name, now() as now
from   {schema}.manifest m
where  m.enabled and not m.held and m.next_due_at is not null and m.next_due_at < now() + $1::bigint * interval '1 microsecond'
order  by m.next_due_at, m.id
limit  $2::bigint
