-- server_transactions · the transaction that is open the longest, and how many sessions this role cannot look into
-- SQLite has no server that knows.
select null as pid, null as who, null as state, null as open_us, null as idle_us, 0 as hidden
