-- unpark_kinds · jobs that were parked because nobody knew their kind, for a node that does
--
-- Those of a paused manifest stay parked, for that reason then. Index: work_queue_unknown. Zero rows: nobody waited.
-- $1 kinds, $2 at most
update {schema}.work_queue as w
set    unknown_kind = false,
       phase = case when w.origin <> 'trigger' and exists (select from {schema}.manifest_state s
                                                           where  s.manifest_id = w.manifest_id and s.paused) then 'parked'
                    when w.due_at > now() then 'later' else 'ready' end
where  w.id = any (array (
           select id from {schema}.work_queue
           where  unknown_kind and kind = any ($1::text[])
           order  by id limit $2::bigint
           for    no key update skip locked))
returning w.id
