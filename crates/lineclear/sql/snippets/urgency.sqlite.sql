-- urgency(due_at, rank) · how far its priority brings a job forward, in µs; the first column of work_queue_urgency
({due_at} - {rank})
