-- list_jobs · a page of jobs, newest first, waiting, running, dead and over
--
-- Reads at most ?3 rows of each table and filters those, so that a rare filter on a long history cannot scan it all;
-- `seen_down_to` is where the next page goes on (null: this was all). Always one row at least. One statement, so that a moving job is not listed twice.
-- ?1 before this id, ?2 at most, ?3 window, ?4 states (null: all), ?5 kind, ?6 manifest id, ?7 group id (null: any)
with waiting as materialized (
    select id, manifest_id, tick_at, origin, kind, route, group_id, priority, claim_no, failures, crashes, created_at, due_at,
           limit_key, phase, null as finished_at, null as node, last_error, null as progress,
           case when phase in ('held', 'parked') then phase when phase = 'later' and claim_no > 0 then 'retrying'
                when phase = 'later' then 'scheduled' else 'queued' end as state
    from   work_queue where id < ?1 order by id desc limit ?3
),
handed as materialized (
    select id, manifest_id, tick_at, origin, kind, route, group_id, priority, claim_no, failures, crashes, created_at,
           was_due_at, limit_key, null, null, leased_by, last_error, progress,
           case when leased_by is null then 'ready' else 'running' end
    from   background_job where id < ?1 order by id desc limit ?3
),
dead as materialized (
    select job_id, manifest_id, tick_at, origin, kind, route, group_id, priority, claim_no, failures, crashes, created_at,
           dead_at, limit_key, null, dead_at, null, last_error, null, 'dead'
    from   dead_letter where job_id < ?1 and status <> 'revived' order by job_id desc limit ?3
),
ended as materialized (
    select job_id, manifest_id, tick_at, origin, kind, null, group_id, null, claim_no, null,
           null, created_at, due_at, null, null, finished_at, node, error_message, null,
           case when outcome = 'completed' then 'completed' else 'cancelled' end
    from   execution where final and job_id < ?1 order by job_id desc limit ?3
),
bottom as materialized (
    select nullif(max((select iif(count(*) = ?3, min(id), 0) from waiting), (select iif(count(*) = ?3, min(id), 0) from handed),
                      (select iif(count(*) = ?3, min(job_id), 0) from dead),
                      (select iif(count(*) = ?3, min(job_id), 0) from ended)), 0) as id
),
page as (
    select * from (
        select * from waiting union all select * from handed union all select * from dead union all select * from ended
    ) found
    where  id >= coalesce((select bottom.id from bottom), 0)
           and (?4 is null or state in (select value from json_each(?4)))
           and (?5 is null or kind = ?5)
           and (?6 is null or manifest_id = ?6)
           and (?7 is null or group_id = ?7)
    order  by id desc
    limit  ?2
)
select bottom.id as seen_down_to, page.*, m.key as manifest_key, g.name as group_name
from   bottom
left   join page on true
left   join manifest m on m.id = page.manifest_id
left   join manifest_group g on g.id = page.group_id
order  by page.id desc
