-- bulk_spread · jobs that a batch has just let go become due one after the other, over its time
-- In the transaction that let them go. What is beyond the jobs that were counted goes round again.
-- $1 batch, $2 jobs, $3 turn of the first
update {schema}.work_queue as w
set    due_at = d.due_at, phase = case when d.due_at > now() then 'later' else 'ready' end,
       rank = (extract(epoch from d.due_at) * 1000000)::bigint
              - (w.priority + coalesce((select g.priority from {schema}.manifest_group g where g.id = w.group_id), 0)) * 600000000::bigint
from  (select j.id, b.begun_at + (b.over_ms * 1000 * (($3::bigint + j.turn - 1) % greatest(b.total, 1)) / greatest(b.total, 1))
                                 * interval '1 microsecond' as due_at
       from   {schema}.batch b, unnest($2::bigint[]) with ordinality as j (id, turn)
       where  b.id = $1::bigint) d
where  w.id = d.id
returning w.id
