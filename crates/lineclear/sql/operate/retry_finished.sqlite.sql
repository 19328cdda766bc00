-- retry_finished · jobs that are over, with what it takes to run them again
-- As in PostgreSQL.
-- ?1 jobs
select o.job_id, o.kind, o.route, o.group_id, o.tags, o.manifest_id, o.priority,
       (select m.key from manifest m where m.id = o.manifest_id and m.removed_at is null) as manifest_key,
       {whole_input(o.input, o.job_id)} as input
from  (select job_id, kind, null as route, group_id, tags, manifest_id, 0 as priority, input
       from   execution where job_id in (select value from json_each(?1)) and final
       union all
       select job_id, kind, route, group_id, tags, manifest_id, priority, input
       from   dead_letter where job_id in (select value from json_each(?1)) and status = 'acknowledged') o
order  by o.job_id
