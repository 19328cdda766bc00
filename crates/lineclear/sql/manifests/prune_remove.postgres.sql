-- prune_remove · mark manifests as removed; their rows stay, because other rows refer to them
-- Their state is not paused: a running job that fails must not be parked for ever.
-- $1 manifest ids, locked
with unlinked as (
    delete from {schema}.manifest_parent where child_id = any ($1::bigint[])
),
state as (
    update {schema}.manifest_state set paused = false, arrived = '[]' where manifest_id = any ($1::bigint[])
)
update {schema}.manifest
set    removed_at = now(), enabled = false, held = false, next_due_at = null, version = version + 1, updated_at = now()
where  id = any ($1::bigint[])
returning id
