-- server_session · which process of the server serves us? Here it is our own
select 0 as session
