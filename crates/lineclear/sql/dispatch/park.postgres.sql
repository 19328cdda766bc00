-- park · waiting jobs of paused manifests step aside
-- What a person triggered goes on. Waits for who moves a row right now; nobody who does waits for us.
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
