-- dependents_ready · record which jobs of its parents a turn is for
-- ?1 rows of job, parent, job of the parent (null: the newest that completed)
insert into turn_parent (job_id, parent_id, parent_job_id)
select i.value ->> 0, i.value ->> 1, coalesce(i.value ->> 2, s.last_success_job_id)
from   json_each(?1) i
join   manifest_state s on s.manifest_id = i.value ->> 1
where  coalesce(i.value ->> 2, s.last_success_job_id) is not null
on conflict (job_id, parent_id) do nothing
