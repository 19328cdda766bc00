-- outbox_partition_numbers · the partitions that need a runner: those of the outbox, and others that have messages to deliver
-- A transaction that began before the number was lowered may still write to one that is gone.
-- $1 outbox, $2 the highest number that there may be
select n
from generate_series(0, $2::bigint) n
where n < (select partitions from {schema}.outbox_partition where outbox = $1::text)
  or exists (select from {schema}.outbox_message m where m.outbox = $1::text || '/' || n and m.ready)
  or exists (select from {schema}.outbox_message m where m.outbox = $1::text || '/' || n and not m.ready and m.dead_at is null)
order by n
