-- lease_clean · deletes rows of locks that were released long ago
-- $1 keep them for so many microseconds, $2 at most
delete from {schema}.lock_lease l
using (select lock_name, store from {schema}.lock_lease
       where released_at < now() - $1 * interval '1 microsecond' limit $2 for update skip locked) i
where l.lock_name = i.lock_name and l.store = i.store
