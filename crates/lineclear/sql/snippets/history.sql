-- history · the columns of a job that its executions keep
manifest_id, tick_at, origin, kind, group_id, tags, created_at
