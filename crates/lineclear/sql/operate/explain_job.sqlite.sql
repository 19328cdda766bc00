-- explain_job · what decides whether a job runs, or how it ended
-- A route with the name of a submitter is that submitter's. Index: node_incarnation.
-- Zero rows: never accepted, cleaned away, or moving between two tables (try again).
-- ?1 job
with job as (
    select manifest_id, origin, kind, route, group_id, limit_key, failures, due_at, null as finished_at, last_error,
           cancel_requested_at, unknown_kind, null as node, null as claimed_at,
           null as lease_ends_at, null as outcome, null as letter, null as reason,
           null as status, null as external_id,
           {waiting_state} as state
    from   work_queue where id = ?1
    union all
    select manifest_id, origin, kind, route, group_id, limit_key, failures, was_due_at, null, last_error, cancel_requested_at, 0,
           leased_by, claimed_at, due_at, null, null, null, null, external_id, {dispatched_state}
    from   background_job where id = ?1
    union all
    select manifest_id, origin, kind, route, group_id, limit_key, failures, dead_at, dead_at, last_error, null, 0, null, null, null,
           null, id, reason, status, null, 'dead'
    from   dead_letter where job_id = ?1 and status <> 'revived'
    union all
    select manifest_id, origin, kind, null, group_id, null, 0, due_at, finished_at, error_message, null, 0, node, claimed_at, null,
           outcome, null, null, null, null, {ended_state}
    from   execution where job_id = ?1 and final
)
select job.*, m.key as manifest_key, m.enabled, n.name as node_name, n.roles as node_roles, s.host as submitter, now_us() as now
from   job
left   join manifest m on m.id = job.manifest_id
left   join node n on n.id = job.node
left   join node s on s.incarnation = 'submitter:' || job.route
