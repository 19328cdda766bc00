-- shown_job · the columns of a job that is not over as lists show it
manifest_id, tick_at, origin, kind, route, group_id, tags, priority, claim_no, failures, crashes, created_at
