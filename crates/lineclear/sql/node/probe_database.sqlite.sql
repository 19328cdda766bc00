-- probe_database · can this node write? It runs in a write transaction, which waits for other processes that write
-- As in PostgreSQL; a file that is read-only, full or locked fails before this.
-- ?1 schema
select ?1 is null as read_only, false as standby, null as locked
