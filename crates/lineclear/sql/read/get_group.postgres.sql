-- get_group · one group, with how many of its jobs are handed out
-- Indexes: manifest_group_name, background_job_group. Zero rows: there is none.
-- $1 name
select g.id, g.name, g.max_active, g.priority, g.enabled, g.version,
       case when g.name = '*' then (select count(*) from {schema}.background_job)
            else (select count(*) from {schema}.background_job b where b.group_id = g.id) end as active
from   {schema}.manifest_group g
where  g.name = $1::text
