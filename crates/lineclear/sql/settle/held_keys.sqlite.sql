-- held_keys · limit keys that hold jobs back, a page at a time, and whether they have room
-- As in PostgreSQL. Indexes: work_queue_held, background_job_limit_key.
-- ?1 after this key, ?2 at most
with recursive held (key, n) as (
    select * from (select limit_key, 1 from work_queue where phase = 'held' and limit_key > ?1 order by limit_key limit 1)
    union all
    select (select w.limit_key from work_queue w where w.phase = 'held' and w.limit_key > held.key
            order by w.limit_key limit 1), held.n + 1
    from   held where held.key is not null and held.n < ?2
)
select key, coalesce((select k.max from limit_key k where k.key = held.key), 1)
            > (select count(*) from background_job b where b.limit_key = held.key) as has_room
from   held where key is not null
order  by key
