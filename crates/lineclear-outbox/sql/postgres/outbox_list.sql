-- outbox_list · messages of a state, newest first
-- A program may write that a message is due at 'infinity', which has no number: the year 9999 is shown, and 1970 for '-infinity'.
-- $1 outbox or null, $2 state, $3 below this id, $4 at most, $5 this id, whose payload and headers are wanted, or null
select id, outbox, topic, key, case when $5::bigint is not null then payload::text end as payload,
  case when $5::bigint is not null then headers::text end as headers, delivery_id::text as delivery_id, attempts, last_error,
  case when dead_at is not null then 'dead' when ready then 'ready' else 'waiting' end as state,
  (extract(epoch from created_at) * 1000000)::bigint as created_us, (extract(epoch from greatest(least(coalesce(dead_at, due_at), '9999-12-31'), 'epoch')) * 1000000)::bigint as at_us
from {schema}.outbox_message
where ($1::text is null or outbox = $1::text) and id < $3::bigint and ($5::bigint is null or id = $5::bigint)
  and case $2::text when 'ready' then ready when 'dead' then dead_at is not null when 'waiting' then not ready and dead_at is null
      else $2::text = '' end
union all
select id, outbox, topic, key, case when $5::bigint is not null then payload::text end,
  case when $5::bigint is not null then headers::text end, delivery_id::text, attempts, null, 'delivered',
  (extract(epoch from created_at) * 1000000)::bigint, (extract(epoch from delivered_at) * 1000000)::bigint
from {schema}.outbox_delivered
where ($1::text is null or outbox = $1::text) and id < $3::bigint and ($5::bigint is null or id = $5::bigint)
  and $2::text in ('delivered', '')
order by id desc
limit $4::bigint
