-- urgency(due_at, rank) · how far its priority brings a job forward, in µs; the first column of work_queue_urgency
((extract(epoch from {due_at} at time zone 'UTC') * 1000000)::bigint - {rank})
