-- bulk_spread · spread the due times of the jobs that a bulk operation has released over its period
-- As in PostgreSQL.
-- ?1 bulk operation, ?2 jobs, ?3 turn of the first
update work_queue
set    due_at = d.due_at, phase = {phase(d.due_at)},
       rank = {rank(d.due_at, priority, {group_priority(group_id)})}
from  (select j.value as id, b.begun_at + b.over_ms * 1000 * ((?3 + j.key) % max(b.total, 1)) / max(b.total, 1) as due_at
       from   bulk_operation b, json_each(?2) j
       where  b.id = ?1) d
where  work_queue.id = d.id
returning work_queue.id
