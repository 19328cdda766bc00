-- job · the columns of a job that travel unchanged through every table
manifest_id, tick_at, origin, kind, route, input, group_id, priority, limit_key, unique_key,
retries, timeout_ms, created_at, trace, tags
