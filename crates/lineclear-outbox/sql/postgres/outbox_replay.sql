-- outbox_replay · dead messages become ready again, with a new budget
-- $1 outbox, $2 ids
update {schema}.outbox_message set ready = true, due_at = now(), attempts = 0, dead_at = null, expires_at = null
where outbox = $1::text and dead_at is not null and id = any ($2::bigint[])
