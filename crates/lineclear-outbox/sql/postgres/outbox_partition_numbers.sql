-- outbox_partition_numbers · the partitions that need a runner: those of the outbox, and others that have messages to deliver
-- A transaction that began before the number was lowered may still write to one that is gone. From one name to the next, without reading all
-- messages: `0` is the character after `/`.
-- $1 outbox, $2 the highest number that there may be
with recursive ready (name) as (
  (select m.outbox from {schema}.outbox_message m
   where m.ready and m.outbox >= $1::text || '/' and m.outbox < $1::text || '0' order by m.outbox limit 1)
  union all
  select (select m.outbox from {schema}.outbox_message m
          where m.ready and m.outbox > r.name and m.outbox < $1::text || '0' order by m.outbox limit 1)
  from ready r where r.name is not null
), waiting (name) as (
  (select m.outbox from {schema}.outbox_message m
   where not m.ready and m.dead_at is null and m.outbox >= $1::text || '/' and m.outbox < $1::text || '0' order by m.outbox limit 1)
  union all
  select (select m.outbox from {schema}.outbox_message m
          where not m.ready and m.dead_at is null and m.outbox > w.name and m.outbox < $1::text || '0' order by m.outbox limit 1)
  from waiting w where w.name is not null
)
select n
from generate_series(0, $2::bigint) n
where n < (select partitions from {schema}.outbox_partition where outbox = $1::text)
  or $1::text || '/' || n in (select name from ready where name is not null union all select name from waiting where name is not null)
order by n
