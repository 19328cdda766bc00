-- bulk_pending · is there a bulk operation whose time has come?
-- As in PostgreSQL.
select exists (select 1 from bulk_operation where status in ('waiting', 'running') and starts_at <= now_us()
               and (look_at is null or look_at <= now_us())) as waits
