-- bulk_lease · lease the oldest bulk operation that no server works on
-- Index: bulk_operation_open. Zero rows: there is nothing to do, or other servers do it.
-- $1 holder, $2 lease in ms
update {schema}.bulk_operation
set    status = 'running', leased_by = $1::text, lease_ends_at = now() + $2::bigint * interval '1 millisecond',
       begun_at = coalesce(begun_at, now())
where  id = (select id from {schema}.bulk_operation
             where  status in ('waiting', 'running') and starts_at <= now() and (look_at is null or look_at <= now())
                    and (leased_by is null or leased_by = $1::text or lease_ends_at <= now())
             order  by id limit 1 for update skip locked)
returning {bulk_operation}
