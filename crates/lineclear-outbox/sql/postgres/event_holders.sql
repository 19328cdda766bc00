-- event_holders · open transactions that have appended events, longest first: subscriptions wait for them
-- $1 at most. Of sessions of other roles, only the number of the session is seen without pg_read_all_stats. A prepared transaction has no session;
-- its number is that of the lock on itself
with holder as materialized (
  select l.pid, l.virtualtransaction from pg_locks l
  where l.locktype = 'advisory' and l.database = (select d.oid from pg_database d where d.datname = current_database())
    and l.classid = 1818518902 and l.objid = '{schema}.event'::regclass and l.objsubid = 2 and l.granted
    and l.virtualtransaction not like '%/0'
), own as materialized (
  select x.virtualtransaction, x.transactionid from pg_locks x
  where x.locktype = 'transactionid' and x.mode = 'ExclusiveLock' and x.pid is null
)
select h.pid::bigint as pid, a.application_name, a.usename::text as username, a.state, p.gid,
  (extract(epoch from clock_timestamp() - coalesce(a.xact_start, p.prepared)) * 1000000)::bigint as open_us
from holder h
left join pg_stat_activity a on a.pid = h.pid
left join own o on h.pid is null and o.virtualtransaction = h.virtualtransaction
left join pg_prepared_xacts p on p.transaction = o.transactionid
order by coalesce(a.xact_start, p.prepared)
limit $1::bigint
