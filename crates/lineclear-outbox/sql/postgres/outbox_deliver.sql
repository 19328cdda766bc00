-- outbox_deliver · messages that were delivered
-- $1 ids
with gone as (
  delete from {schema}.outbox_message where id = any ($1::bigint[])
  returning id, outbox, topic, key, payload, headers, trace, delivery_id, created_at, attempts
)
insert into {schema}.outbox_delivered (id, outbox, topic, key, payload, headers, trace, delivery_id, created_at, attempts, delivered_at)
select id, outbox, topic, key, payload, headers, trace, delivery_id, created_at, attempts + 1, now() from gone
