-- enqueue_owners · the jobs that have these unique keys
-- worn: its time is over, so it is free unless its job is still alive.
-- Index: job_key_once. Zero rows: the key is free.
-- $1 keys
select key, job_id, body_hash, coalesce(until <= now(), false) as worn from {schema}.job_key where key = any ($1::text[])
