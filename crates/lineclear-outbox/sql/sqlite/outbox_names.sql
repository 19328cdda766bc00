-- outbox_names · outboxes that have messages, or delivered one of the last thousand
-- ?1 at most. From one name to the next, without reading all messages
with recursive ready (outbox) as (
  select (select min(outbox) from lineclear_outbox_message where ready = 1)
  union all
  select (select min(m.outbox) from lineclear_outbox_message m where m.ready = 1 and m.outbox > r.outbox)
  from ready r where r.outbox is not null limit ?1
), waiting (outbox) as (
  select (select min(outbox) from lineclear_outbox_message where ready = 0 and dead_at is null)
  union all
  select (select min(m.outbox) from lineclear_outbox_message m where m.ready = 0 and m.dead_at is null and m.outbox > w.outbox)
  from waiting w where w.outbox is not null limit ?1
), dead (outbox) as (
  select (select min(outbox) from lineclear_outbox_message where dead_at is not null)
  union all
  select (select min(m.outbox) from lineclear_outbox_message m where m.dead_at is not null and m.outbox > d.outbox)
  from dead d where d.outbox is not null limit ?1
)
select outbox from (
  select outbox from ready union select outbox from waiting union select outbox from dead
  union select outbox from (select outbox from lineclear_outbox_delivered order by id desc limit 1000)
)
where outbox is not null
order by outbox
limit ?1
