-- 0031_parked_by_manifest · parked jobs by their manifest: the cleaner reads each paused manifest once, not each of its jobs.

create index if not exists work_queue_parked_manifest on work_queue (manifest_id, id) where phase = 'parked' and not unknown_kind;
