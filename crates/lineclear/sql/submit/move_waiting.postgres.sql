-- move_waiting · jobs of a kind that wait on its old route go to its new one
-- Rows that another transaction holds are skipped: a node that claims one there sends it on (reroute).
-- Reads the old route, once for each change of a route. Zero rows: no more wait there.
-- $1 kind, $2 old route, $3 new route, $4 at most
update {schema}.work_queue
set    route = $3::text, unknown_kind = false, phase = case when unknown_kind then {phase(due_at)} else phase end
where  id = any (array (
           select id from {schema}.work_queue where route = $2::text and kind = $1::text
           order  by id limit $4::bigint
           for    no key update skip locked))
returning id
