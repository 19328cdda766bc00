-- list_groups · a page of groups by name, with how many of their jobs are handed out
-- Indexes: manifest_group_name, background_job_group.
-- $1 after this name, $2 at most
select g.id, g.name, g.max_active, g.priority, g.enabled, g.version,
       case when g.name = '*' then (select count(*) from {schema}.background_job)
            else (select count(*) from {schema}.background_job b where b.group_id = g.id) end as active
from   {schema}.manifest_group g
where  g.name > $1::text
order  by g.name limit $2::bigint
