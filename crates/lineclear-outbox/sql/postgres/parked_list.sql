-- parked_list · parked events of the active version, newest first
-- $1 name, $2 below this id, $3 at most, $4 whether payloads and headers are wanted
select p.id, p.attempts::bigint as attempts, p.last_error, (extract(epoch from p.parked_at) * 1000000)::bigint as parked_us, p.replays,
  p.position, e.event_id::text as event_id, e.stream, coalesce(e.version, 0) as version, e.type, case when $4::boolean then e.payload::text end as payload,
  case when $4::boolean then e.headers::text end as headers, e.trace, coalesce((extract(epoch from e.created_at) * 1000000)::bigint, 0) as created_us
from {schema}.subscription_parked p
join {schema}.subscription_checkpoint c on c.name = p.name and c.version = p.version and c.active
left join {schema}.event e on e.position = p.position
where p.name = $1::text and p.id < $2::bigint
order by p.id desc
limit $3::bigint
