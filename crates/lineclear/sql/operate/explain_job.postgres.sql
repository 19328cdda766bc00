-- explain_job · what decides whether a job runs, or how it ended
-- A route with the name of a submitter is that submitter's. Index: node_incarnation.
-- Zero rows: never accepted, cleaned away, or moving between two tables (try again).
-- $1 job
with job as (
    select manifest_id, origin, kind, route, group_id, limit_key, failures, due_at, null::timestamptz as finished_at, last_error,
           cancel_requested_at, unknown_kind, null::bigint as node, null::timestamptz as claimed_at,
           null::timestamptz as lease_ends_at, null::text as outcome, null::bigint as letter, null::text as reason,
           null::text as status, null::text as external_id,
           {waiting_state} as state
    from   {schema}.work_queue where id = $1::bigint
    union all
    select manifest_id, origin, kind, route, group_id, limit_key, failures, was_due_at, null, last_error, cancel_requested_at, false,
           leased_by, claimed_at, due_at, null, null, null, null, external_id, {dispatched_state}
    from   {schema}.background_job where id = $1::bigint
    union all
    select manifest_id, origin, kind, route, group_id, limit_key, failures, dead_at, dead_at, last_error, null, false, null, null, null,
           null, id, reason, status, null, 'dead'
    from   {schema}.dead_letter where job_id = $1::bigint and status <> 'revived'
    union all
    select manifest_id, origin, kind, null, group_id, null, 0, due_at, finished_at, error_message, null, false, node, claimed_at, null,
           outcome, null, null, null, null, {ended_state}
    from   {schema}.execution where job_id = $1::bigint and final
)
select job.*, m.key as manifest_key, m.enabled, n.name as node_name, n.roles as node_roles, s.host as submitter, now() as now
from   job
left   join {schema}.manifest m on m.id = job.manifest_id
left   join {schema}.node n on n.id = job.node
left   join {schema}.node s on s.incarnation = 'submitter:' || job.route
