-- held_keys · limit keys that hold jobs back, a page at a time
--
-- For the cleaner: if a node dies between settling a keyed job and waking the next, the cleaner wakes it.
-- Jumps from key to key in the index instead of reading every held row. Index: work_queue_held. Zero rows: done.
-- $1 after this key, $2 at most
with recursive held (key, n) as (
    (select limit_key, 1 from {schema}.work_queue where phase = 'held' and limit_key > $1::text
     order by limit_key limit 1)
    union all
    select (select w.limit_key from {schema}.work_queue w where w.phase = 'held' and w.limit_key > held.key
            order by w.limit_key limit 1), held.n + 1
    from   held where held.key is not null and held.n < $2::bigint
)
select key from held where key is not null
