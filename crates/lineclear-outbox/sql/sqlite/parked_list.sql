-- parked_list · parked events of the active version, newest first
-- ?1 name, ?2 below this id, ?3 at most, ?4 whether payloads and headers are wanted
select p.id, p.attempts, p.last_error, p.parked_at as parked_us, p.replays,
  p.position, e.event_id, e.stream, coalesce(e.version, 0) as version, e.type, iif(?4, e.payload, null) as payload, iif(?4, e.headers, null) as headers, e.trace,
  coalesce(e.created_at, 0) as created_us
from lineclear_subscription_parked p
join lineclear_subscription_checkpoint c on c.name = p.name and c.version = p.version and c.active = 1
left join lineclear_event e on e.position = p.position
where p.name = ?1 and p.id < ?2
order by p.id desc
limit ?3
