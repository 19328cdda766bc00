-- lease_clean · rows of locks that nobody has held for long, and old events
-- $1 keep idle rows for so many microseconds, $2 events for so many, $3 at most of each
with idle as (
  delete from {schema}.lock_lease l
  using (select lock_name, store from {schema}.lock_lease
         where released_at < now() - $1 * interval '1 microsecond' limit $3 for update skip locked) i
  where l.lock_name = i.lock_name and l.store = i.store
), old as (
  delete from {schema}.lock_event where id = any (array (
    select id from {schema}.lock_event where at < now() - $2 * interval '1 microsecond' order by at limit $3 for update skip locked))
)
select 1
