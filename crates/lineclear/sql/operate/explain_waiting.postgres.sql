-- explain_waiting · what a manifest waits for: jobs of it that are not over, its dead letters, its parents; a few of each
-- Indexes: work_queue_fresh, work_queue_manifest, background_job_manifest, dead_letter_manifest, manifest_parent_child.
-- $1 manifest, $2 of each at most
(select 'job' as what, w.id, null::text as key, fresh,
        {waiting_state} as state, null::text as node_name
 from   {schema}.work_queue w where w.manifest_id = $1::bigint and fresh)
union all
(select 'job' as what, w.id, null::text as key, fresh,
        {waiting_state} as state, null::text as node_name
 from   {schema}.work_queue w where w.manifest_id = $1::bigint and not fresh limit $2::bigint)
union all
(select 'job', b.id, null, false, {dispatched_state},
        coalesce(n.name, 'node ' || b.leased_by)
 from   {schema}.background_job b left join {schema}.node n on n.id = b.leased_by
 where  b.manifest_id = $1::bigint limit $2::bigint)
union all
(select 'dead_letter', d.id, null, false, null, null
 from   {schema}.dead_letter d where d.manifest_id = $1::bigint and d.status = 'awaiting' limit $2::bigint)
union all
(select 'parent', p.parent_id, m.key, false, null, null
 from   {schema}.manifest_parent p join {schema}.manifest m on m.id = p.parent_id
 where  p.child_id = $1::bigint order by m.key limit 100)
