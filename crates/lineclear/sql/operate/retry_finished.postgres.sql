-- retry_finished · jobs that are over, with what it takes to run them again
-- History does not keep the route. Indexes: execution_final, dead_letter_job. A missing row: it is not over, or not kept.
-- $1 jobs
select o.job_id, o.kind, o.route, o.group_id, o.tags, o.manifest_id, o.priority,
       (select m.key from {schema}.manifest m where m.id = o.manifest_id and m.removed_at is null) as manifest_key,
       {whole_input(o.input, o.job_id)} as input
from  (select job_id, kind, null::text as route, group_id, tags, manifest_id, 0::bigint as priority, input
       from   {schema}.execution where job_id = any ($1::bigint[]) and final
       union all
       select job_id, kind, route, group_id, tags, manifest_id, priority::bigint, input
       from   {schema}.dead_letter where job_id = any ($1::bigint[]) and status = 'acknowledged') o
order  by o.job_id
