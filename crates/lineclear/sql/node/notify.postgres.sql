-- notify · tell other nodes that there may be work, or that standing orders have changed
-- Never inside the transaction that enqueues: NOTIFY serialises commits (15.7k inserts a second became 3.2k).
-- $1 channel, $2 what
select pg_notify($1::text, $2::text)
