-- phase(due_at) · a job that nothing holds up waits for its time, or is ready
case when {due_at} > now() then 'later' else 'ready' end
