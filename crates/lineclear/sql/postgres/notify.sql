-- notify · tell other nodes that there may be work
-- Never inside the transaction that enqueues: NOTIFY serialises commits (15.7k inserts a second became 3.2k).
-- $1 channel
select pg_notify($1::text, '')
