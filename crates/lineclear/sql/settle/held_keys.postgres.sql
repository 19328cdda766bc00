-- held_keys · limit keys that hold jobs back, a page at a time, and whether they have room
--
-- For the cleaner: if a node dies between settling a keyed job and waking the next, the cleaner wakes it. The room is counted here,
-- in a read, so that full keys, however many, cost no transaction.
-- Jumps from key to key in the index instead of reading every held row. Indexes: work_queue_held, background_job_limit_key. Zero rows: done.
-- $1 after this key, $2 at most
with recursive held (key, n) as (
    (select limit_key, 1 from {schema}.work_queue where phase = 'held' and limit_key > $1::text
     order by limit_key limit 1)
    union all
    select (select w.limit_key from {schema}.work_queue w where w.phase = 'held' and w.limit_key > held.key
            order by w.limit_key limit 1), held.n + 1
    from   held where held.key is not null and held.n < $2::bigint
)
select key, coalesce((select k.max from {schema}.limit_key k where k.key = held.key), 1)
            > (select count(*) from {schema}.background_job b where b.limit_key = held.key) as has_room
from   held where key is not null
order  by key
