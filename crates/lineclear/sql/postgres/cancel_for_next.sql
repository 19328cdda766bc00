-- cancel_for_next · the running jobs of these manifests make way for a newer tick
-- Index: background_job_manifest. Locked rows (being settled right now) are skipped: they are over.
-- $1 manifest ids
update {schema}.background_job
set    cancel_requested_at = now()
where  id = any (array (
           select id from {schema}.background_job
           where  manifest_id = any ($1::bigint[]) and cancel_requested_at is null
           order  by id
           for    no key update skip locked))
returning id
