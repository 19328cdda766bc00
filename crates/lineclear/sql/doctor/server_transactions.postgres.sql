-- server_transactions · the transaction that is open the longest, and how many sessions this role cannot look into
-- Reads no table. Zero rows: no other transaction is open.
with open as (
    select pid::bigint as pid, coalesce(usename::text, '?') || ' (' || coalesce(nullif(application_name, ''), 'no name') || ')' as who,
           coalesce(state, '?') as state, xact_start,
           case when state like 'idle in transaction%' then state_change end as idle_since
    from   pg_stat_activity
    where  datname = current_database() and xact_start is not null and pid <> pg_backend_pid() and backend_type = 'client backend'
    union all
    select null, gid, 'prepared for two-phase commit', prepared, null
    from   pg_prepared_xacts where database = current_database()
)
select o.pid, o.who, o.state, {micros(clock_timestamp() - o.xact_start)} as open_us,
       {micros(clock_timestamp() - o.idle_since)} as idle_us, h.hidden
from   (select count(*) as hidden from pg_stat_activity
        where datname = current_database() and backend_type is null and pid <> pg_backend_pid()) h
left   join (select * from open order by xact_start limit 1) o on true
