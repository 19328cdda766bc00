-- event_stream · events of one stream, in order
-- ?1 stream, ?2 after this version, ?3 at most
select e.position, e.event_id, e.stream, e.version, e.type, e.payload, e.headers, e.trace, e.created_at as created_us
from lineclear_event e
where e.stream = ?1 and e.version > ?2
order by e.version
limit ?3
