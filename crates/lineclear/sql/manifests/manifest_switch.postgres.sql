-- manifest_switch · pause or resume manifests
-- $1.. id, enabled, decided up to, next due
with switched as (
    update {schema}.manifest_state as s set paused = not i.enabled
    from   unnest($1::bigint[], $2::boolean[]) as i (id, enabled)
    where  s.manifest_id = i.id
)
update {schema}.manifest as m
set    enabled = i.enabled, planned_through = greatest(m.planned_through, i.planned_through), next_due_at = i.next_due_at,
       version = m.version + 1, updated_at = now()
from   unnest($1::bigint[], $2::boolean[], $3::timestamptz[], $4::timestamptz[])
       as i (id, enabled, planned_through, next_due_at)
where  m.id = i.id
returning m.id
