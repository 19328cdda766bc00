-- get_group · one group, with how many of its jobs are handed out
-- Index: background_job_group. Zero rows: there is none.
-- ?1 name
select g.id, g.name, g.max_active, g.priority, g.enabled, g.version,
       case when g.name = '*' then (select count(*) from background_job)
            else (select count(*) from background_job b where b.group_id = g.id) end as active
from   manifest_group g
where  g.name = ?1
