-- outbox_partition_set · sets how many partitions an outbox has
-- $1 outbox, $2 partitions
insert into {schema}.outbox_partition as p (outbox, partitions) values ($1::text, $2::bigint::integer)
on conflict (outbox) do update set partitions = excluded.partitions
