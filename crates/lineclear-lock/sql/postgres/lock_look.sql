-- lock_look · who holds a lock, or held it last; no row: nobody ever did
select epoch, holder, kind, released_at is null as held,
  (extract(epoch from ends_at - clock_timestamp()) * 1000000)::bigint as micros_left
from {schema}.lock_epoch where name = $1
