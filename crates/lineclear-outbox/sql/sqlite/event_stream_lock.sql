-- event_stream_lock · the version of a stream; locks the file for writers
-- A write comes first: SQLite fails at once, without waiting for other writers, when a transaction writes after it has read.
-- ?1 stream
update lineclear_event_stream set version = version where stream = ?1 returning version
