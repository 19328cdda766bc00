-- node_resign · a node that leads the planning stops: the row of its tenure is stamped and kept
-- $1 incarnation
update {schema}.lock_lease set released_at = now(), renewed_at = now()
where  lock_name = 'planner' and store = 'engine' and incarnation = $1::text and released_at is null
