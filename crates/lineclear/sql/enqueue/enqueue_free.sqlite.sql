-- enqueue_free · free unique keys that hold while their job lives, and whose job is nowhere
-- As in PostgreSQL.
-- ?1 keys
delete from job_key
where  key in (select value from json_each(?1)) and until is null and {job_is_nowhere(job_key.job_id)}
returning key
