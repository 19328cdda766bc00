-- unpark_kinds · unpark the jobs whose kind no node knew, when a node that knows it starts
--
-- Jobs of a paused manifest stay parked. Index: work_queue_unknown. Zero rows: no job was parked for these kinds.
-- $1 kinds, $2 at most
with chosen as materialized (
    select id, manifest_id from {schema}.work_queue
    where  unknown_kind and kind = any ($1::text[])
    order  by id limit $2::bigint
    for    no key update skip locked
),
states as materialized (
    {lock_states((select manifest_id from chosen where manifest_id is not null))}
)
update {schema}.work_queue as w
set    unknown_kind = false,
       phase = case when w.origin <> 'trigger' and exists (select from states s where s.manifest_id = w.manifest_id and s.paused) then 'parked'
                    else {phase(w.due_at)} end
where  w.id = any (array (select chosen.id from chosen where {state_is_free(chosen.manifest_id)}))
returning w.id
