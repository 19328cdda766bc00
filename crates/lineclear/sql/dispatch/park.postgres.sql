-- park · park the waiting jobs of paused manifests
-- Triggered jobs go on. Waits for transactions that move one of the rows; none of those waits for this one.
-- Index: work_queue_manifest.
-- $1 manifest ids
update {schema}.work_queue
set    phase = 'parked'
where  id = any (array (
           select id from {schema}.work_queue
           where  manifest_id = any ($1::bigint[]) and phase <> 'parked' and origin <> 'trigger'
           order  by id
           for    no key update))
returning id, limit_key
