-- node_resign · a node that leads the planning stops: the row of its tenure is stamped and kept
-- ?1 incarnation
update lock_lease set released_at = now_us(), renewed_at = now_us()
where  lock_name = 'planner' and store = 'engine' and incarnation = ?1 and released_at is null
