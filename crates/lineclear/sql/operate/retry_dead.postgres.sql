-- retry_dead · the dead letters of jobs that await a person, locked
-- Locked before their manifests, as by revive. Index: dead_letter_awaiting. Zero rows: none awaits.
-- $1 jobs
select id, job_id, manifest_id from {schema}.dead_letter
where  job_id = any ($1::bigint[]) and status = 'awaiting'
order  by id for update
