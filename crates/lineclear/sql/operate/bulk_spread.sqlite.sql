-- bulk_spread · jobs that a batch has just let go become due one after the other, over its time
-- As in PostgreSQL.
-- ?1 batch, ?2 jobs, ?3 turn of the first
update work_queue
set    due_at = d.due_at, phase = iif(d.due_at > now_us(), 'later', 'ready'),
       rank = d.due_at - (priority + coalesce((select g.priority from manifest_group g where g.id = group_id), 0)) * 600000000
from  (select j.value as id, b.begun_at + b.over_ms * 1000 * ((?3 + j.key) % max(b.total, 1)) / max(b.total, 1) as due_at
       from   batch b, json_each(?2) j
       where  b.id = ?1) d
where  work_queue.id = d.id
returning work_queue.id
