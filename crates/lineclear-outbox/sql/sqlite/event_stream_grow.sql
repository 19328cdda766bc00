-- event_stream_grow · the version of a stream after an append
-- ?1 stream, ?2 version
insert into lineclear_event_stream (stream, version) values (?1, ?2) on conflict (stream) do update set version = excluded.version
