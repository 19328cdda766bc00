-- move_waiting · jobs of a kind that wait on its old route go to its new one
-- As in PostgreSQL.
-- ?1 kind, ?2 old route, ?3 new route, ?4 at most
update work_queue
set    route = ?3, unknown_kind = 0, phase = iif(unknown_kind, {phase(due_at)}, phase)
where  id in (select id from work_queue where route = ?2 and kind = ?1 order by id limit ?4)
returning id
