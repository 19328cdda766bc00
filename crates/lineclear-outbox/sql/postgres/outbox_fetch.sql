-- outbox_fetch · the next messages, in the order of their ids
-- behind_us: the message of its key before it failed, or waits behind one that did, for so long. Mostly none waits, and none is looked for.
-- Conditions and order are those of the index of ready messages: with `outbox = $1 … order by id`, the planner may walk all messages by id, and
-- with `exists`, it may read the table.
-- $1 outbox, $2 from this id on, $3 but not these, $4 at most
select m.id, m.topic, m.key, m.payload::text, m.headers::text, m.trace, m.delivery_id::text, m.attempts, m.created_at,
  coalesce(m.expires_at <= now(), false),
  (select (extract(epoch from r.due_at - now()) * 1000000)::bigint from {schema}.outbox_message r
   where (select f.id from {schema}.outbox_message f
          where f.outbox between $1::text and $1::text and (f.attempts > 0 or f.aside) and not f.ready and f.dead_at is null
            and f.key is not null order by f.outbox, f.key, f.id limit 1) is not null
     and r.outbox = m.outbox and r.key = m.key and r.id < m.id and (r.attempts > 0 or r.aside) and not r.ready and r.dead_at is null
     and r.key is not null order by r.id desc limit 1)
from {schema}.outbox_message m
where m.ready and (m.outbox, m.id) >= ($1::text, $2::bigint) and m.outbox <= $1::text and m.id <> all ($3::bigint[])
order by m.outbox, m.id
limit $4::bigint
