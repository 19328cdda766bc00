-- get_job · one job, wherever it is
-- Zero rows: never accepted, cleaned away, or moving between two tables (try again).
-- ?1 job
select j.*, m.key as manifest_key, m.spec, g.name as group_name, n.name as node_name, n.roles as node_roles, now_us() as now from (
    select id, {shown_job}, due_at, limit_key, phase,
           null as finished_at, null as node, last_error, null as progress,
           {waiting_state} as state,
           {whole_input(input, ?1)} as input, null as claimed_at, null as external_id
    from   work_queue where id = ?1
    union all
    select id, {shown_job}, was_due_at, limit_key, null,
           null, leased_by, last_error, progress, {dispatched_state},
           {whole_input(input, ?1)}, claimed_at, external_id
    from   background_job where id = ?1
    union all
    select job_id, {shown_job}, dead_at, limit_key, null,
           dead_at, null, last_error, null, 'dead',
           {whole_input(input, ?1)}, null, null
    from   dead_letter where job_id = ?1 and status <> 'revived'
    union all
    select job_id, manifest_id, tick_at, origin, kind, null, group_id, tags, null, claim_no, null, null, created_at, due_at, null, null, finished_at,
           node, error_message, null, {ended_state},
           {whole_input(input, ?1)}, null, null
    from   execution where job_id = ?1 and final
) j
left   join manifest m on m.id = j.manifest_id
left   join manifest_group g on g.id = j.group_id
left   join node n on n.id = j.node
