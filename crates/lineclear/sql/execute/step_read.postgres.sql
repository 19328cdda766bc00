-- step_read · the recorded results of steps that earlier claims finished
-- Index: job_step_once. A step that is missing has not finished yet.
-- $1.. job, name
select s.job_id, s.name, s.output
from   unnest($1::bigint[], $2::text[]) as i (job_id, name)
join   {schema}.job_step s on s.job_id = i.job_id and s.name = i.name
where  s.output is not null
