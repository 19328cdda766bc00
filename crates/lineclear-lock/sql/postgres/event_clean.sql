-- event_clean · deletes old events
-- $1 keep them for so many microseconds, $2 at most
delete from {schema}.lock_event where id = any (array (
  select id from {schema}.lock_event where at < now() - $1 * interval '1 microsecond' order by at limit $2 for update skip locked))
