-- wait_ms · how long a job that was due waited for its claim
max(0, coalesce(claimed_at - due_at, 0)) / 1000
