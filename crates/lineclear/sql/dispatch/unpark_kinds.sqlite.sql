-- unpark_kinds · jobs that were parked because nobody knew their kind, for a node that does
-- As in PostgreSQL. Index: work_queue_unknown.
-- ?1 kinds, ?2 at most
update work_queue
set    unknown_kind = 0,
       phase = case when origin <> 'trigger' and exists (select 1 from manifest_state s
                                                         where  s.manifest_id = work_queue.manifest_id and s.paused) then 'parked'
                    when due_at > now_us() then 'later' else 'ready' end
where  id in (select id from work_queue where unknown_kind and kind in (select value from json_each(?1)) order by id limit ?2)
returning id
