-- enqueue_owners · the jobs that have these unique keys
-- As in PostgreSQL.
-- ?1 keys
select key, job_id, body_hash, coalesce(until <= now_us(), 0) as worn from job_key where key in (select value from json_each(?1))
