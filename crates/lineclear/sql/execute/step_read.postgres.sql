-- step_read · what an earlier claim recorded of a step that finished
-- Index: job_step_once. Zero rows: it is still to be done.
-- $1 job, $2 name
select output from {schema}.job_step where job_id = $1::bigint and name = $2::text and output is not null
