-- outbox_fetch_gaps · messages with ids that were passed before their transactions committed; columns as in outbox_fetch
-- $1 outbox, $2 the first ids of the gaps, $3 the last ones, $4 but not these, $5 at most
select m.id, m.topic, m.key, m.payload::text, m.headers::text, m.trace, m.delivery_id::text, m.attempts, m.created_at,
  coalesce(m.expires_at <= now(), false),
  (select (extract(epoch from r.due_at - now()) * 1000000)::bigint from {schema}.outbox_message r
   where r.outbox = m.outbox and r.key = m.key and r.id < m.id and (r.attempts > 0 or r.aside) and not r.ready and r.dead_at is null
     and r.key is not null order by r.id desc limit 1)
from unnest($2::bigint[], $3::bigint[]) as gap (first_id, last_id)
cross join lateral (
  select * from {schema}.outbox_message o
  where o.ready and (o.outbox, o.id) >= ($1::text, gap.first_id) and (o.outbox, o.id) <= ($1::text, gap.last_id)
    and o.id <> all ($4::bigint[])
  order by o.outbox, o.id
  limit $5::bigint
) m
order by m.id
limit $5::bigint
