-- get_job · one job, wherever it is
-- Zero rows: never accepted, cleaned away, or moving between two tables (try again).
-- $1 job
select j.*, m.key as manifest_key, m.spec, g.name as group_name, n.name as node_name, n.roles as node_roles, now() as now from (
    select id, {shown_job}, due_at, limit_key, phase,
           null::timestamptz as finished_at, null::bigint as node, last_error, null::text as progress,
           {waiting_state} as state,
           {whole_input(input, $1::bigint)} as input, null::timestamptz as claimed_at, null::text as external_id
    from   {schema}.work_queue where id = $1::bigint
    union all
    select id, {shown_job}, was_due_at, limit_key, null,
           null, leased_by, last_error, progress, {dispatched_state},
           {whole_input(input, $1::bigint)}, claimed_at, external_id
    from   {schema}.background_job where id = $1::bigint
    union all
    select job_id, {shown_job}, dead_at, limit_key, null,
           dead_at, null, last_error, null, 'dead',
           {whole_input(input, $1::bigint)}, null, null
    from   {schema}.dead_letter where job_id = $1::bigint and status <> 'revived'
    union all
    select job_id, manifest_id, tick_at, origin, kind, null, group_id, tags, null, claim_no, null, null, created_at, due_at, null, null, finished_at,
           node, error_message, null, {ended_state},
           {whole_input(input, $1::bigint)}, null, null
    from   {schema}.execution where job_id = $1::bigint and final
) j
left   join {schema}.manifest m on m.id = j.manifest_id
left   join {schema}.manifest_group g on g.id = j.group_id
left   join {schema}.node n on n.id = j.node
