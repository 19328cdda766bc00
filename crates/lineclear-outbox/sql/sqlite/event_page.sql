-- event_page · events of a range, in order
-- ?1 after this position, ?2 up to this one, ?3 at most; lists, empty for all: ?4 types, ?5 beginnings of types, ?6 streams,
-- ?7 beginnings of streams
select e.position, e.event_id, e.stream, e.version, e.type, e.payload, e.headers, e.trace, e.created_at as created_us
from lineclear_event e
where e.position > ?1 and e.position <= ?2
  and (json_array_length(?4) + json_array_length(?5) = 0 or e.type in (select value from json_each(?4))
       or exists (select 1 from json_each(?5) p where substr(e.type, 1, length(p.value)) = p.value))
  and (json_array_length(?6) + json_array_length(?7) = 0 or e.stream in (select value from json_each(?6))
       or exists (select 1 from json_each(?7) p where substr(e.stream, 1, length(p.value)) = p.value))
order by e.position
limit ?3
