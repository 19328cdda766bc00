-- event_page · events of a range, in order. The caller has waited until no position up to its end can appear any more
-- $1 after this position, $2 up to this one, $3 at most; arrays, empty for all: $4 types, $5 beginnings of types, $6 streams,
-- $7 beginnings of streams
select e.position, e.event_id::text as event_id, e.stream, e.version, e.type, e.payload::text as payload, e.headers::text as headers, e.trace,
  (extract(epoch from e.created_at) * 1000000)::bigint as created_us
from {schema}.event e
where e.position > $1::bigint and e.position <= $2::bigint
  and (cardinality($4::text[]) + cardinality($5::text[]) = 0 or e.type = any ($4::text[])
       or exists (select from unnest($5::text[]) p where starts_with(e.type, p)))
  and (cardinality($6::text[]) + cardinality($7::text[]) = 0 or e.stream = any ($6::text[])
       or exists (select from unnest($7::text[]) p where starts_with(e.stream, p)))
order by e.position
limit $3::bigint
