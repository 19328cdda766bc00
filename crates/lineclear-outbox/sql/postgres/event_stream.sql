-- event_stream · events of one stream, in order
-- $1 stream, $2 after this version, $3 at most
select e.position, e.event_id::text as event_id, e.stream, e.version, e.type, e.payload::text as payload, e.headers::text as headers, e.trace,
  (extract(epoch from e.created_at) * 1000000)::bigint as created_us
from {schema}.event e
where e.stream = $1::text and e.version > $2::bigint
order by e.version
limit $3::bigint
