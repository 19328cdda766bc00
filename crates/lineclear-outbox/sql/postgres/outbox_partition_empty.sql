-- outbox_partition_empty · whether no message is ready, waiting or dead
-- $1 names: of the outbox and all partitions that it may have. Each part has an index of its own
select not exists (select from {schema}.outbox_message where outbox = any ($1::text[]) and ready)
  and not exists (select from {schema}.outbox_message where outbox = any ($1::text[]) and not ready and dead_at is null)
  and not exists (select from {schema}.outbox_message where outbox = any ($1::text[]) and dead_at is not null) as empty
