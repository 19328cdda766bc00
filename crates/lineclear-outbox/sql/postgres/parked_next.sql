-- parked_next · the next parked event that is handled again
-- $1 name, $2 version
select p.id, p.attempts::bigint as attempts, p.position, e.event_id::text as event_id, e.stream, coalesce(e.version, 0) as version, e.type,
  e.payload::text as payload, e.headers::text as headers, e.trace, coalesce((extract(epoch from e.created_at) * 1000000)::bigint, 0) as created_us
from {schema}.subscription_parked p
left join {schema}.event e on e.position = p.position
where p.name = $1::text and p.version = $2::integer and p.replays
order by p.id
limit 1
