-- ended_state · the state of a job whose last execution is final
case when outcome = 'completed' then 'completed' else 'cancelled' end
