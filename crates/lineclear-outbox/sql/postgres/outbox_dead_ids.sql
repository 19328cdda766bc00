-- outbox_dead_ids · ids of dead messages, in order
-- $1 outbox, $2 above this id, $3 at most
select id from {schema}.outbox_message where outbox = $1::text and dead_at is not null and id > $2::bigint order by id limit $3::bigint
