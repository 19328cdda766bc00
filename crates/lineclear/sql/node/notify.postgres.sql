-- notify · tell other nodes that there may be work, or that standing orders have changed
-- Never inside the transaction that enqueues: NOTIFY serialises commits (15.7k inserts a second became 3.2k).
-- Its own commit need not reach the disk: it changes no row, and a wait for the disk would take the turn of an enqueue.
-- $1 channel, $2 what
select pg_notify($1::text, $2::text), set_config('synchronous_commit', 'off', true)
