-- whole_input(input, job_id) · the input of a job; a long one is in a table of its own
coalesce({input}, (select p.input from {schema}.job_payload p where p.job_id = {job_id}))
