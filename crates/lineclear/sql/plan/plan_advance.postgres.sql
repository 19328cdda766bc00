-- plan_advance · move manifests on: decided up to here, due again then
--
-- planned_through never goes back, whatever clock or edit says otherwise.
-- $1.. manifest, planned through, next due (null: never again)
update {schema}.manifest as m
set    planned_through = greatest(m.planned_through, i.planned_through), next_due_at = i.next_due_at
from   unnest($1::bigint[], $2::timestamptz[], $3::timestamptz[]) as i (id, planned_through, next_due_at)
where  m.id = i.id
