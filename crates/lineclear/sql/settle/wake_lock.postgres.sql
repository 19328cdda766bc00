-- wake_lock · lock these limit keys, so that no dispatcher is counting them
-- A job is marked held under this lock only, so after it nothing held can be missed. A key that another transaction holds is skipped
-- and returned as not locked: the caller tries it again.
-- $1 keys
with locked as materialized (
    select key from {schema}.limit_key where key = any ($1::text[]) order by key for no key update skip locked
)
select asked.key, exists (select from locked l where l.key = asked.key)
                  or not exists (select from {schema}.limit_key k where k.key = asked.key) as locked
from   unnest($1::text[]) as asked (key)
