-- bulk_lease · lease the oldest bulk operation that no server works on
-- As in PostgreSQL.
-- ?1 holder, ?2 lease in ms
update bulk_operation
set    status = 'running', leased_by = ?1, lease_ends_at = now_us() + ?2 * 1000,
       begun_at = coalesce(begun_at, now_us())
where  id = (select id from bulk_operation
             where  status in ('waiting', 'running') and starts_at <= now_us() and (look_at is null or look_at <= now_us())
                    and (leased_by is null or leased_by = ?1 or lease_ends_at <= now_us())
             order  by id limit 1)
returning {bulk_operation}
