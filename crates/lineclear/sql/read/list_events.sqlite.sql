-- list_events · what happened since a moment, oldest first
-- As in PostgreSQL. Indexes: execution_completed, execution_ended, execution_tried, lock_event_at, node_seen, audit_at.
-- ?1 since, ?2 at most of each source
select * from (
    select * from (
        select 0 as source, finished_at as at, job_id as id, claim_no as no, outcome as word, kind as name, manifest_id, group_id, node,
               null as dead_letter, null as who, null as status
        from   execution where final and outcome = 'completed' and finished_at >= ?1
        order  by finished_at limit ?2)
    union all
    select * from (
        select 1, finished_at, job_id, claim_no, 'cancelled', kind, manifest_id, group_id, node, null, null, null
        from   execution where final and outcome <> 'completed' and finished_at >= ?1
        order  by finished_at limit ?2)
    union all
    select * from (
        select 2, e.finished_at, e.job_id, e.claim_no, e.outcome, e.kind, e.manifest_id, e.group_id, e.node,
               (select d.id from dead_letter d where d.job_id = e.job_id and d.claim_no = e.claim_no), null, null
        from   execution e where not e.final and e.finished_at >= ?1
        order  by e.finished_at limit ?2)
    union all
    select * from (
        select 3, at, id, 0, what, lock_name, null, null, null, null, holder, null
        from   lock_event where at >= ?1 - 120000000
        order  by at limit ?2)
    union all
    select * from (
        select 4, started_at, id, 0, 'started', name, null, null, id, null, null, null
        from   node where seen_at >= ?1 and started_at >= ?1 and roles <> '["submitter"]'
        order  by started_at limit ?2)
    union all
    select * from (
        select 5, seen_at + 30000000, id, seen_at, 'silent', name, null, null, id, null, null, null
        from   node where seen_at >= ?1 - 30000000 and seen_at < now_us() - 30000000 and roles <> '["submitter"]'
        order  by seen_at limit ?2)
    union all
    select * from (
        select 6, at, id, 0, action, target, null, null, null, null, who, status
        from   audit where at >= ?1
        order  by at limit ?2)
)
order  by at, source, id, no
