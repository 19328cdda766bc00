-- outbox_partition_unset · an outbox has no partitions any more
-- $1 outbox
delete from {schema}.outbox_partition where outbox = $1::text
