-- outbox_fetch · the next messages, in the order of their ids
-- behind_us: the message of its key before it failed, or waits behind one that did, for so long.
-- $1 outbox, $2 from this id on, $3 but not these, $4 at most
select m.id, m.topic, m.key, m.payload::text as payload, m.headers::text as headers, m.trace, m.delivery_id::text as delivery_id, m.attempts,
  (extract(epoch from m.created_at) * 1000000)::bigint as created_us, coalesce(m.expires_at <= now(), false) as expired,
  (select (extract(epoch from r.due_at - now()) * 1000000)::bigint from {schema}.outbox_message r
   where r.outbox = m.outbox and r.key = m.key and r.id < m.id and (r.attempts > 0 or r.aside) and not r.ready and r.dead_at is null
     and r.key is not null order by r.id desc limit 1) as behind_us
from {schema}.outbox_message m
where m.outbox = $1::text and m.ready and m.id >= $2::bigint and m.id <> all ($3::bigint[])
order by m.id
limit $4::bigint
