-- phase(due_at) · a job that nothing holds up waits for its time, or is ready
iif({due_at} > now_us(), 'later', 'ready')
