-- enqueue_owners · the jobs that have these unique keys
-- As in PostgreSQL.
-- ?1 keys
select key, job_id, body_hash, coalesce(until <= now_us(), 0) as expired, until is null and {job_is_nowhere(k.job_id)} as gone
from   job_key k where key in (select value from json_each(?1))
