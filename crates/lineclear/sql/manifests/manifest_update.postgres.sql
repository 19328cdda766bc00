-- manifest_update · update manifests
-- Restores removed ones. The hold is decided again, because on_dead may have changed. Index: dead_letter_manifest.
-- $1.. id, then one array per column
with switched as (
    update {schema}.manifest_state as s set paused = not i.enabled
    from   unnest($1::bigint[], $12::boolean[]) as i (id, enabled)
    where  s.manifest_id = i.id
)
update {schema}.manifest as m
set    owner = i.owner, kind = i.kind, route = i.route, input = i.input, group_id = i.group_id, spec = i.spec,
       overlap = i.overlap, priority = i.priority, retries = i.retries, timeout_ms = i.timeout_ms, enabled = i.enabled,
       next_due_at = i.next_due_at, planned_through = greatest(m.planned_through, i.planned_through), declared = i.declared,
       on_dead = i.on_dead, backoff = i.backoff, tags = i.tags, removed_at = null,
       held = (i.on_dead = 'hold'
               and exists (select from {schema}.dead_letter d where d.manifest_id = m.id and d.status = 'awaiting')),
       version = m.version + 1, updated_at = now()
from   unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[],
              $9::bigint[], $10::bigint[], $11::bigint[], $12::boolean[], $13::timestamptz[], $14::timestamptz[], $15::text[],
              $16::text[], $17::text[], $18::text[])
       as i (id, owner, kind, route, input, group_id, spec, overlap, priority, retries, timeout_ms, enabled, next_due_at,
             planned_through, declared, on_dead, backoff, tags)
where  m.id = i.id
returning m.id, m.key, m.version
