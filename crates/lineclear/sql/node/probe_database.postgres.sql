-- probe_database · can this node write, and does a session lock one of our tables? A node asks every 2.5 seconds
-- Reads what the server has in memory, and takes no lock of ours. A lock counts once its transaction lasts a second: migrations and
-- vacuum lock tables for moments. A session that waits for a row has a lock of type `tuple`, which blocks no table.
-- $1 schema
select current_setting('transaction_read_only') = 'on' as read_only, pg_is_in_recovery() as standby,
       (select format('%s is locked by process %s (%s)', c.relname, l.pid,
                      concat_ws(', ', nullif(a.application_name, ''), 'user ' || a.usename::text, a.state))
        from   pg_locks l
        join   pg_class c on c.oid = l.relation
        join   pg_namespace n on n.oid = c.relnamespace
        left   join pg_stat_activity a on a.pid = l.pid
        where  n.nspname = $1::text and c.relkind = 'r' and l.granted and l.locktype = 'relation'
        and    l.mode in ('AccessExclusiveLock', 'ExclusiveLock', 'ShareRowExclusiveLock', 'ShareLock')
        and    l.database = (select d.oid from pg_database d where d.datname = current_database())
        -- Of sessions of other users a role without rights sees neither.
        and    coalesce(a.backend_type, 'client backend') = 'client backend'
        and    coalesce(a.xact_start < now() - interval '1 second', true)
        order  by a.xact_start, c.relname limit 1) as locked
