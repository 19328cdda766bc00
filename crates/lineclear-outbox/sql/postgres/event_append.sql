-- event_append · appends events to a stream, in the transaction of the caller
-- $1 stream, $2 expected version or null, then arrays: $3 types, $4 payloads, $5 headers, $6 traces. No positions: the stream is at
-- another version
select positions, reached from {schema}.event_append_all($1::text, $2::bigint, $3::text[], $4::text[], $5::text[], $6::text[])
