-- job_template · what the jobs of a manifest get from it
id, key, kind, route, input, group_id, overlap, priority, retries, timeout_ms, tags
