-- manifest_live · which of these manifests have a job that is not over?
--
-- Both tables in ONE statement: in two, a job on its way from one to the other is found in neither. The caller has
-- locked the manifests in an earlier statement, so this snapshot sees whatever a trigger queued before.
-- Indexes: work_queue_manifest, background_job_manifest. Zero rows: none.
-- $1 manifest ids
select manifest_id, true as waits from {schema}.work_queue where manifest_id = any ($1::bigint[]) and fresh
union
select manifest_id, false from {schema}.work_queue where manifest_id = any ($1::bigint[]) and not fresh
union
select manifest_id, false from {schema}.background_job where manifest_id = any ($1::bigint[])
