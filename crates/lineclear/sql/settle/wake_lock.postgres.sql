-- wake_lock · wait for dispatchers that are counting these limit keys
-- In key order. A dispatcher marks jobs held only under this lock, so a read after it sees every held job.
-- $1 keys
select key from {schema}.limit_key where key = any ($1::text[]) order by key for no key update
