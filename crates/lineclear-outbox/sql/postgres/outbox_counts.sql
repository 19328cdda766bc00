-- outbox_counts · how many messages there are
-- $1 outbox, $2 count no further
select
  (select count(*) from (select from {schema}.outbox_message where outbox = $1::text and ready limit $2::bigint) r) as ready,
  (select count(*) from (select from {schema}.outbox_message
                         where outbox = $1::text and not ready and dead_at is null limit $2::bigint) w) as waiting,
  (select count(*) from (select from {schema}.outbox_message where outbox = $1::text and dead_at is not null limit $2::bigint) d) as dead,
  coalesce((select (extract(epoch from now() - greatest(due_at, 'epoch')) * 1000000)::bigint from {schema}.outbox_message
            where outbox = $1::text and ready order by id limit 1), 0) as lag_us
