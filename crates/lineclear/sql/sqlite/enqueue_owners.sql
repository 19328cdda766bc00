-- enqueue_owners · whose are these unique keys?
-- ?1 keys
select key, job_id from job_key where key in (select value from json_each(?1))
