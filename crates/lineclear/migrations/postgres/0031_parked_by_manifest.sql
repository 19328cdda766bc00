-- 0031_parked_by_manifest · parked jobs by their manifest: the cleaner reads each paused manifest once, not each of its jobs.
-- built concurrently

create index concurrently work_queue_parked_manifest on {schema}.work_queue (manifest_id, id) where phase = 'parked' and not unknown_kind;
