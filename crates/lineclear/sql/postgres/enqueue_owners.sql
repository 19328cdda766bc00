-- enqueue_owners · whose are these unique keys?
-- Index: job_key_once. Zero rows: the key was freed in between; try again.
-- $1 keys
select key, job_id from {schema}.job_key where key = any ($1::text[])
