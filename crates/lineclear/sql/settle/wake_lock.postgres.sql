-- wake_lock · wait for dispatchers that are counting these limit keys
-- In key order. Whoever marks a job held does so under this lock, so after it nothing held can be missed.
-- $1 keys
select key from {schema}.limit_key where key = any ($1::text[]) order by key for no key update
