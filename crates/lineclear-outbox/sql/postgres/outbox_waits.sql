-- outbox_waits · whether a message can be delivered now
-- $1 outbox, $2 from this id on
-- The first one in the order of each index: with `exists`, the planner may read the table until it meets one.
select (select m.id from {schema}.outbox_message m where m.ready and (m.outbox, m.id) >= ($1::text, $2::bigint) and m.outbox <= $1::text
        order by m.outbox, m.id limit 1) is not null
  or (select m.id from {schema}.outbox_message m where not m.ready and m.dead_at is null and m.outbox between $1::text and $1::text
        and m.due_at <= now() order by m.outbox, m.due_at limit 1) is not null as waits
