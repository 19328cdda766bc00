-- outbox_waits · whether a message can be delivered now
-- $1 outbox, $2 from this id on
select exists (select from {schema}.outbox_message where outbox = $1::text and ready and id >= $2::bigint)
  or exists (select from {schema}.outbox_message where outbox = $1::text and not ready and dead_at is null and due_at <= now()) as waits
