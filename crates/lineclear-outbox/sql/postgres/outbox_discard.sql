-- outbox_discard · deletes dead messages
-- $1 outbox, $2 ids
delete from {schema}.outbox_message where outbox = $1::text and dead_at is not null and id = any ($2::bigint[])
