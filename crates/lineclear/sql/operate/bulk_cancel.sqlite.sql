-- bulk_cancel · stop a bulk operation
-- Zero rows: it is over, or there is none.
-- ?1 bulk operation, ?2 why (null: a person stopped it)
update bulk_operation set status = 'cancelled', finished_at = now_us(), stopped_because = ?2
where  id = ?1 and status in ('waiting', 'running')
returning {bulk_operation}
