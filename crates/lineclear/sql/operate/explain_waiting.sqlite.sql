-- explain_waiting · what a manifest waits for: jobs of it that are not over, its dead letters, its parents; a few of each
-- Indexes: work_queue_fresh, work_queue_manifest, background_job_manifest, dead_letter_manifest, manifest_parent_child.
-- ?1 manifest, ?2 of each at most
select * from (select 'job' as what, w.id, null as key, fresh,
        {waiting_state} as state, null as node_name
 from   work_queue w where w.manifest_id = ?1 and fresh)
union all
select * from (select 'job' as what, w.id, null as key, fresh,
        {waiting_state} as state, null as node_name
 from   work_queue w where w.manifest_id = ?1 and not fresh limit ?2)
union all
select * from (select 'job', b.id, null, 0, {dispatched_state},
        coalesce(n.name, 'node ' || b.leased_by)
 from   background_job b left join node n on n.id = b.leased_by
 where  b.manifest_id = ?1 limit ?2)
union all
select * from (select 'dead_letter', d.id, null, 0, null, null
 from   dead_letter d where d.manifest_id = ?1 and d.status = 'awaiting' limit ?2)
union all
select * from (select 'parent', p.parent_id, m.key, 0, null, null
 from   manifest_parent p join manifest m on m.id = p.parent_id
 where  p.child_id = ?1 order by m.key limit 100)
