-- outbox_clean · removes what is kept no longer
-- $1 outbox, ages in microseconds of $2 delivered messages, $3 dedup keys and $4 dead messages, $5 at most of each
with delivered as (
  delete from {schema}.outbox_delivered where id = any (array (
    select id from {schema}.outbox_delivered where outbox = $1::text and delivered_at < now() - $2::bigint * interval '1 microsecond' limit $5::bigint))
  returning 1
), keys as (
  delete from {schema}.outbox_dedup where ctid = any (array (
    select ctid from {schema}.outbox_dedup where outbox = $1::text and created_at < now() - $3::bigint * interval '1 microsecond' limit $5::bigint))
  returning 1
), dead as (
  delete from {schema}.outbox_message where id = any (array (
    select id from {schema}.outbox_message
    where outbox = $1::text and dead_at < now() - $4::bigint * interval '1 microsecond' limit $5::bigint for update skip locked))
  returning 1
)
select (select count(*) from delivered) + (select count(*) from keys) + (select count(*) from dead) as removed
