-- lock_states(manifests) · the states of manifests, locked: a pause or resume that comes at this moment is seen, or waits
-- The manifest's own row belongs to the planner, and a settle must not wait for a planner.
-- manifests: a query of ids
select manifest_id, paused from {schema}.manifest_state
where  manifest_id = any (array {manifests})
order  by manifest_id for share
