-- outbox_promote · messages that have become due
-- $1 outbox, $2 at most. Returned: the lowest id among them
with due as (
  update {schema}.outbox_message set ready = true, aside = false
  where  id = any (array (select id from {schema}.outbox_message
                          where outbox = $1::text and not ready and dead_at is null and due_at <= now()
                          order by due_at, id limit $2::bigint))
  returning id
)
select min(id) as first from due
