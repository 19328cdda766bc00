-- unpark_kinds · unpark the jobs whose kind no node knew, when a node that knows it starts
-- As in PostgreSQL. Index: work_queue_unknown.
-- ?1 kinds, ?2 at most
update work_queue
set    unknown_kind = 0,
       phase = case when origin <> 'trigger' and exists (select 1 from manifest_state s
                                                         where  s.manifest_id = work_queue.manifest_id and s.paused) then 'parked'
                    else {phase(due_at)} end
where  id in (select id from work_queue where unknown_kind and kind in (select value from json_each(?1)) order by id limit ?2)
returning id
