-- lock_read · who holds a lock, or held it last; no row: it was never held. `left_over` is null if it is free
select epoch, holder, kind,
  if(is_used_lock(:key) is null, null, cast(idle_seconds as signed) - coalesce(
    (select cast(time as signed) from information_schema.processlist where id = is_used_lock(:key)), 0)) as left_over,
  is_used_lock(:key) as connection
from lock_epoch where name = :name
