-- list_events · what happened since a moment, oldest first
--
-- A try that did not end its job is looked up among the dead letters. A change of the planning leader is dated back to the
-- first cycle that it won, and other processes register locks: these events are read two minutes further back.
-- Each source by itself, so that each uses its index and none hides the others: execution_completed, execution_ended,
-- execution_tried, lock_event_at, node_seen, audit_at.
-- $1 since, $2 at most of each source
select * from (
    (select 0 as source, finished_at as at, job_id as id, claim_no::bigint as no, outcome as word, kind as name, manifest_id, group_id, node,
            null::bigint as dead_letter, null::text as who, null::integer as status
     from   {schema}.execution where final and outcome = 'completed' and finished_at >= $1::timestamptz
     order  by finished_at limit $2::bigint)
    union all
    (select 1, finished_at, job_id, claim_no, 'cancelled', kind, manifest_id, group_id, node, null, null, null
     from   {schema}.execution where final and outcome <> 'completed' and finished_at >= $1::timestamptz
     order  by finished_at limit $2::bigint)
    union all
    (select 2, e.finished_at, e.job_id, e.claim_no, e.outcome, e.kind, e.manifest_id, e.group_id, e.node,
            (select d.id from {schema}.dead_letter d where d.job_id = e.job_id and d.claim_no = e.claim_no), null, null
     from   {schema}.execution e where not e.final and e.finished_at >= $1::timestamptz
     order  by e.finished_at limit $2::bigint)
    union all
    (select 3, at, id, 0, what, lock_name, null, null, null, null, holder, null
     from   {schema}.lock_event where at >= $1::timestamptz - interval '2 minutes'
     order  by at limit $2::bigint)
    union all
    (select 4, started_at, id, 0, 'started', name, null, null, id, null, null, null
     from   {schema}.node where seen_at >= $1::timestamptz and started_at >= $1::timestamptz and roles <> '["submitter"]'
     order  by started_at limit $2::bigint)
    union all
    (select 5, seen_at + interval '30 seconds', id, {micros(seen_at)}, 'silent', name, null, null, id, null, null, null
     from   {schema}.node where seen_at >= $1::timestamptz - interval '30 seconds' and seen_at < now() - interval '30 seconds'
            and roles <> '["submitter"]'
     order  by seen_at limit $2::bigint)
    union all
    (select 6, at, id, 0, action, target, null, null, null, null, who, status
     from   {schema}.audit where at >= $1::timestamptz
     order  by at limit $2::bigint)
) happened
order  by at, source, id, no
