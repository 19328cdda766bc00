-- outbox_counts · how many messages there are
-- Each in the order of its index, so that no other messages are read.
-- $1 outbox, $2 count no further
select
  (select count(*) from (select from {schema}.outbox_message where outbox between $1::text and $1::text and ready
                         order by outbox, id limit $2::bigint) r) as ready,
  (select count(*) from (select from {schema}.outbox_message
                         where outbox between $1::text and $1::text and not ready and dead_at is null
                         order by outbox, due_at, id limit $2::bigint) w) as waiting,
  (select count(*) from (select from {schema}.outbox_message where outbox between $1::text and $1::text and dead_at is not null
                         order by outbox, id limit $2::bigint) d) as dead,
  coalesce((select (extract(epoch from now() - greatest(due_at, 'epoch')) * 1000000)::bigint from {schema}.outbox_message
            where outbox between $1::text and $1::text and ready order by outbox, id limit 1), 0) as lag_us
