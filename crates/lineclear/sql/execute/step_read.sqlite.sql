-- step_read · the recorded results of steps that earlier claims finished
-- Index: job_step_once. A step that is missing has not finished yet.
-- ?1 rows of job, name
select s.job_id, s.name, s.output
from   (select value ->> 0 as job_id, value ->> 1 as name from json_each(?1)) i
join   job_step s on s.job_id = i.job_id and s.name = i.name
where  s.output is not null
