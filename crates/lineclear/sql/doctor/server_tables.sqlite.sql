-- server_tables · what the server has counted about our tables: rows that live, that are dead, and when it last cleaned up
-- SQLite leaves no dead rows.
-- ?1 schema
select ?1 as name, 0 as live, 0 as dead, null as vacuumed_us, 0 as neglected where 0
