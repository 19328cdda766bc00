-- job_is_nowhere(id) · no living job has this id: it is over, or its row was deleted by hand
not exists (select 1 from {schema}.work_queue     living where living.id = {id})
and not exists (select 1 from {schema}.background_job living where living.id = {id})
and not exists (select 1 from {schema}.dead_letter    living where living.job_id = {id} and living.status = 'awaiting')
