-- list_jobs · a page of jobs, newest first, waiting, running, dead and over
--
-- Reads at most $3 rows of each table and filters those, so that a rare filter on a long history cannot scan it all;
-- `seen_down_to` is where the next page goes on (null: this was all). Always one row at least. One statement, so that a moving job is not listed twice.
-- $1 before this id, $2 at most, $3 window, $4 states (null: all), $5 kind, $6 manifest id, $7 group id (null: any)
with waiting as materialized (
    select id, manifest_id, tick_at, origin, kind, route, group_id, priority, claim_no, failures, crashes, created_at, due_at,
           limit_key, phase, null::timestamptz as finished_at, null::bigint as node, last_error, null::text as progress,
           case when phase in ('held', 'parked') then phase when phase = 'later' and claim_no > 0 then 'retrying'
                when phase = 'later' then 'scheduled' else 'queued' end as state
    from   {schema}.work_queue where id < $1::bigint order by id desc limit $3::bigint
),
handed as materialized (
    select id, manifest_id, tick_at, origin, kind, route, group_id, priority, claim_no, failures, crashes, created_at,
           was_due_at, limit_key, null::text, null::timestamptz, leased_by, last_error, progress,
           case when leased_by is null then 'ready' else 'running' end
    from   {schema}.background_job where id < $1::bigint order by id desc limit $3::bigint
),
dead as materialized (
    select job_id, manifest_id, tick_at, origin, kind, route, group_id, priority, claim_no, failures, crashes, created_at,
           dead_at, limit_key, null::text, dead_at, null::bigint, last_error, null::text, 'dead'
    from   {schema}.dead_letter where job_id < $1::bigint and status <> 'revived' order by job_id desc limit $3::bigint
),
ended as materialized (
    select job_id, manifest_id, tick_at, origin, kind, null::text, group_id, null::smallint, claim_no, null::integer,
           null::integer, created_at, due_at, null::text, null::text, finished_at, node, error_message, null::text,
           case when outcome = 'completed' then 'completed' else 'cancelled' end
    from   {schema}.execution where final and job_id < $1::bigint order by job_id desc limit $3::bigint
),
bottom as materialized (
    select greatest((select min(id)     from waiting having count(*) = $3::bigint),
                    (select min(id)     from handed  having count(*) = $3::bigint),
                    (select min(job_id) from dead    having count(*) = $3::bigint),
                    (select min(job_id) from ended   having count(*) = $3::bigint)) as id
),
page as (
    select * from (
        select * from waiting union all select * from handed union all select * from dead union all select * from ended
    ) found
    where  id >= coalesce((select bottom.id from bottom), 0)
           and ($4::text[] is null or state = any ($4::text[]))
           and ($5::text is null or kind = $5::text)
           and ($6::bigint is null or manifest_id = $6::bigint)
           and ($7::bigint is null or group_id = $7::bigint)
    order  by id desc
    limit  $2::bigint
)
select bottom.id as seen_down_to, page.*, m.key as manifest_key, g.name as group_name
from   bottom
left   join page on true
left   join {schema}.manifest m on m.id = page.manifest_id
left   join {schema}.manifest_group g on g.id = page.group_id
order  by page.id desc
