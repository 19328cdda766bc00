-- unpark_forgotten · jobs that are parked although their manifest runs
-- Index: work_queue_parked.
-- ?1 at most
update work_queue
set    phase = {phase(due_at)}
where  id in (select w.id from work_queue w
              where  w.phase = 'parked' and not w.unknown_kind and exists (select 1 from manifest m where m.id = w.manifest_id and m.enabled)
              order  by w.id limit ?1)
returning id
