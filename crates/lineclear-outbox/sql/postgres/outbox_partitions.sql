-- outbox_partitions · how many partitions an outbox has; no row: it has none
-- $1 outbox
select partitions from {schema}.outbox_partition where outbox = $1::text
