-- waiting_state · the state of a job in work_queue
case when phase in ('held', 'parked') then phase
     when phase = 'later' and claim_no > 0 then 'retrying'
     when phase = 'later' then 'scheduled' else 'queued' end
