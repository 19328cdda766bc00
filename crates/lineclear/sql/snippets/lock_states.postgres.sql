-- lock_states(manifests) · the states of manifests, locked: a pause or resume that comes at this moment is seen, or waits
-- A state that another transaction holds is skipped: its jobs are left alone this time ({state_is_free}), and no other job waits.
-- manifests: a query of ids
select manifest_id, paused from {schema}.manifest_state
where  manifest_id = any (array {manifests})
order  by manifest_id for share skip locked
