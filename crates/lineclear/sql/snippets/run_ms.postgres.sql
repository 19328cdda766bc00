-- run_ms · how long a claim ran
greatest(0, coalesce(extract(epoch from finished_at - coalesce(started_at, claimed_at)) * 1000, 0))::bigint
