-- outbox_names · outboxes that have messages, or delivered one of the last thousand
-- $1 at most. From one name to the next, without reading all messages
with recursive ready (outbox) as (
  (select outbox from {schema}.outbox_message where ready order by outbox limit 1)
  union all
  select (select m.outbox from {schema}.outbox_message m where m.ready and m.outbox > r.outbox order by m.outbox limit 1)
  from ready r where r.outbox is not null
), waiting (outbox) as (
  (select outbox from {schema}.outbox_message where not ready and dead_at is null order by outbox limit 1)
  union all
  select (select m.outbox from {schema}.outbox_message m
          where not m.ready and m.dead_at is null and m.outbox > w.outbox order by m.outbox limit 1)
  from waiting w where w.outbox is not null
), dead (outbox) as (
  (select outbox from {schema}.outbox_message where dead_at is not null order by outbox limit 1)
  union all
  select (select m.outbox from {schema}.outbox_message m where m.dead_at is not null and m.outbox > d.outbox order by m.outbox limit 1)
  from dead d where d.outbox is not null
)
select outbox from (
  (select outbox from ready limit $1::bigint) union (select outbox from waiting limit $1::bigint) union (select outbox from dead limit $1::bigint)
  union (select outbox from (select outbox from {schema}.outbox_delivered order by id desc limit 1000) delivered)
) named
where outbox is not null
order by outbox
limit $1::bigint
