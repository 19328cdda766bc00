-- enqueue_free · free unique keys that hold while their job lives, and whose job is nowhere
-- Asked again under the lock: another call may have taken the key over meanwhile. Index: job_key_once.
-- $1 keys
delete from {schema}.job_key
where  key = any (array (
           select k.key from {schema}.job_key k
           where  k.key = any ($1::text[]) and k.until is null and {job_is_nowhere(k.job_id)}
           order  by k.key for update of k))
returning key
