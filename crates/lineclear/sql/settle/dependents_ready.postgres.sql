-- dependents_ready · record which jobs of its parents a turn is for
-- $1.. job, parent, job of the parent (null: the newest that completed)
insert into {schema}.turn_parent (job_id, parent_id, parent_job_id)
select i.job_id, i.parent_id, coalesce(i.parent_job_id, s.last_success_job_id)
from   unnest($1::bigint[], $2::bigint[], $3::bigint[]) as i (job_id, parent_id, parent_job_id)
join   {schema}.manifest_state s on s.manifest_id = i.parent_id
where  coalesce(i.parent_job_id, s.last_success_job_id) is not null
on conflict (job_id, parent_id) do nothing
