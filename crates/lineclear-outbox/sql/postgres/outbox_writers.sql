-- outbox_writers · open transactions that may have written messages
-- Each has this lock on the table from before it draws an id until it ends. A transaction with the number 0 has ended, and is visible.
select l.virtualtransaction as writer from pg_locks l
where l.locktype = 'relation' and l.database = (select d.oid from pg_database d where d.datname = current_database())
  and l.relation = '{schema}.outbox_message'::regclass and l.mode = 'RowExclusiveLock' and l.granted
  and l.pid is distinct from pg_backend_pid() and l.virtualtransaction not like '%/0'
