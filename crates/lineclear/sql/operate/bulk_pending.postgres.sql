-- bulk_pending · is there a bulk operation whose time has come?
-- Idle servers ask this; it reads one row of an index. Index: bulk_operation_open.
select exists (select from {schema}.bulk_operation where status in ('waiting', 'running') and starts_at <= now()
               and (look_at is null or look_at <= now())) as waits
