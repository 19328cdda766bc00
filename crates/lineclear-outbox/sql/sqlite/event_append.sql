-- event_append · appends an event to a stream, in the transaction of the caller
-- ?1 stream, ?2 version, ?3 type, ?4 payload, ?5 headers, ?6 trace, ?7 id
insert into lineclear_event (stream, version, type, payload, headers, trace, event_id) values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
