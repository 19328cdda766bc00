-- outbox_write · writes messages; one whose dedup key is known is left out
-- The partition is found in the statement that locks the table of messages: its snapshot is taken when it has the lock, and a change of their
-- number has that lock, too. The function outbox_write finds the same one.
-- $1 outbox, then arrays: $2 topics, $3 keys, $4 payloads, $5 headers, $6 traces, $7 dedup keys, $8 delays in microseconds, $9 lifetimes
-- in microseconds. Returned: the place of each message that was written, from 1, and its id
with input as (
  select i.*, row_number() over (partition by dedup_key order by place) = 1 as first
  from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::bigint[]) with ordinality
    as i (topic, key, payload, headers, trace, dedup_key, delay_us, life_us, place)
), fresh as (
  insert into {schema}.outbox_dedup (outbox, dedup_key)
  select $1::text, dedup_key from input where dedup_key is not null and first
  order by dedup_key
  on conflict do nothing
  returning dedup_key
), chosen as (
  select * from input i where dedup_key is null or (first and dedup_key in (select dedup_key from fresh))
), written as (
  insert into {schema}.outbox_message (outbox, topic, key, payload, headers, trace, ready, due_at, expires_at)
  select coalesce($1::text || '/' || coalesce(hashtextextended(key collate "C", 0) & 9223372036854775807, (random() * 1000000)::bigint)
      % (select partitions from {schema}.outbox_partition where outbox = $1::text), $1::text),
    topic, key, payload::json, headers::json, trace, coalesce(delay_us, 0) <= 0,
    clock_timestamp() + coalesce(delay_us, 0) * interval '1 microsecond', clock_timestamp() + life_us * interval '1 microsecond'
  from chosen order by place
  returning id
)
select c.place, w.id
from (select place, row_number() over (order by place) as n from chosen) c
join (select id, row_number() over (order by id) as n from written) w using (n)
order by c.place
