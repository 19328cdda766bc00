-- park · waiting jobs of paused manifests step aside
-- Index: work_queue_manifest. Rows that are being dispatched right now are skipped: they have left.
-- $1 manifest ids
update {schema}.work_queue
set    phase = 'parked'
where  id = any (array (
           select id from {schema}.work_queue
           where  manifest_id = any ($1::bigint[]) and phase <> 'parked'
           order  by id
           for    no key update skip locked))
returning id, limit_key
