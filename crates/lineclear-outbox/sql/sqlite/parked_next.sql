-- parked_next · the next parked event that is handled again
-- ?1 name, ?2 version
select p.id, p.attempts, p.position, e.event_id, e.stream, coalesce(e.version, 0) as version, e.type, e.payload, e.headers, e.trace,
  coalesce(e.created_at, 0) as created_us
from lineclear_subscription_parked p
left join lineclear_event e on e.position = p.position
where p.name = ?1 and p.version = ?2 and p.replays = 1
order by p.id
limit 1
