-- run_ms · how long a claim ran
max(0, coalesce(finished_at - coalesce(started_at, claimed_at), 0)) / 1000
