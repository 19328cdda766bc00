-- event_holders · none: a file has one writer at a time, so positions are committed in their order
-- ?1 at most
select null as pid, null as application_name, null as username, null as state, null as gid, null as open_us where ?1 is null
