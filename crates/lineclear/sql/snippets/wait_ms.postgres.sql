-- wait_ms · how long a job that was due waited for its claim
greatest(0, coalesce(extract(epoch from claimed_at - due_at) * 1000, 0))::bigint
