-- prune_remove · manifests go; their rows stay for what names them
-- Their state is not paused: a job that runs must not be parked for ever when it fails.
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
