-- dispatched_state · the state of a job in background_job
case when leased_by is null then 'ready' else 'running' end
