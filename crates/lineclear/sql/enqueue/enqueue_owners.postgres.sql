-- enqueue_owners · whose are these unique keys?
-- expired: its time is over, so it may be free unless its job still lives. gone: it holds while its job lives, and the job is nowhere: the
-- job's row was deleted by hand, or the key was locked when the job ended.
-- Index: job_key_once. Zero rows: the key is free.
-- $1 keys
select key, job_id, body_hash, coalesce(until <= now(), false) as expired, until is null and {job_is_nowhere(k.job_id)} as gone
from   {schema}.job_key k where key = any ($1::text[])
