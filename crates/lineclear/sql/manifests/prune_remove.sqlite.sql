-- prune_remove · mark manifests as removed; their rows stay, because other rows refer to them
-- Their state is not paused: a running job that fails must not be parked for ever.
-- ?1 manifest ids
delete from manifest_parent where child_id in (select value from json_each(?1));
update manifest_state set paused = 0, arrived = '[]' where manifest_id in (select value from json_each(?1));
update manifest
set    removed_at = now_us(), enabled = 0, held = 0, next_due_at = null, version = version + 1, updated_at = now_us()
where  id in (select value from json_each(?1))
returning id
