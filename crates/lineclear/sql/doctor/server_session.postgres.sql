-- server_session · the server process of this session; behind a transaction pooler it changes
select pg_backend_pid()::bigint as session
