-- step_read · the recorded result of a step that an earlier claim finished
-- Index: job_step_once. Zero rows: the step has not finished yet.
-- ?1 job, ?2 name
select output from job_step where job_id = ?1 and name = ?2 and output is not null
