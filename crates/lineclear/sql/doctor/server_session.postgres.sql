-- server_session · which process of the server serves us? Behind a transaction pooler it is not always the same
select pg_backend_pid()::bigint as session
