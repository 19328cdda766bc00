-- unpark_forgotten · jobs that are parked although their manifest runs
-- For the cleaner: whatever the cause, they must not wait for ever. Index: work_queue_parked.
-- $1 at most
update {schema}.work_queue
set    phase = {phase(due_at)}
where  id = any (array (
           select w.id from {schema}.work_queue w
           join   {schema}.manifest m on m.id = w.manifest_id and m.enabled
           where  w.phase = 'parked' and not w.unknown_kind
           order  by w.id limit $1::bigint
           for    no key update of w skip locked))
returning id
