-- outbox_forget · messages that were delivered and are not kept
-- $1 ids
delete from {schema}.outbox_message where id = any ($1::bigint[])
