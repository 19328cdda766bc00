-- server_session · the server process of this session; SQLite runs in our own
select 0 as session
