-- unpark_kinds · jobs that were parked because nobody knew their kind, for a node that does
--
-- Those of a paused manifest stay parked, for that reason then. State rows are locked, as by settle, so that a pause that
-- comes at this moment is seen, or waits for us. Index: work_queue_unknown. Zero rows: nobody waited.
-- $1 kinds, $2 at most
with chosen as materialized (
    select id, manifest_id from {schema}.work_queue
    where  unknown_kind and kind = any ($1::text[])
    order  by id limit $2::bigint
    for    no key update skip locked
),
orders as materialized (
    select manifest_id, paused from {schema}.manifest_state
    where  manifest_id = any (array (select manifest_id from chosen where manifest_id is not null))
    order  by manifest_id for share
)
update {schema}.work_queue as w
set    unknown_kind = false,
       phase = case when w.origin <> 'trigger' and exists (select from orders o
                                                           where  o.manifest_id = w.manifest_id and o.paused) then 'parked'
                    when w.due_at > now() then 'later' else 'ready' end
where  w.id = any (array (select id from chosen))
returning w.id
