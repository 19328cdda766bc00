-- unpark · jobs of resumed manifests wait again like all others
-- Index: work_queue_manifest.
-- $1 manifest ids
update {schema}.work_queue
set    phase = {phase(due_at)}
where  id = any (array (
           select id from {schema}.work_queue
           where  manifest_id = any ($1::bigint[]) and phase = 'parked' and not unknown_kind
           order  by id
           for    no key update))
returning id, limit_key
