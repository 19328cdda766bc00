-- server_tables · the server's statistics of our tables: live rows, dead rows, and the last vacuum
-- SQLite leaves no dead rows.
-- ?1 schema
select ?1 as name, 0 as live, 0 as dead, null as vacuumed_us, 0 as neglected where 0
