-- bulk_spread · spread the due times of the jobs that a bulk operation has released over its period
-- In the transaction that released them. Jobs beyond the counted total start again at the beginning of the period.
-- $1 bulk operation, $2 jobs, $3 turn of the first
update {schema}.work_queue as w
set    due_at = d.due_at, phase = {phase(d.due_at)},
       rank = {rank(d.due_at, w.priority, {group_priority(w.group_id)})}
from  (select j.id, b.begun_at + (b.over_ms * 1000 * (($3::bigint + j.turn - 1) % greatest(b.total, 1)) / greatest(b.total, 1))
                                 * interval '1 microsecond' as due_at
       from   {schema}.bulk_operation b, unnest($2::bigint[]) with ordinality as j (id, turn)
       where  b.id = $1::bigint) d
where  w.id = d.id
returning w.id
