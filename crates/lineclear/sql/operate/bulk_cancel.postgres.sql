-- bulk_cancel · stop a bulk operation
-- Zero rows: it is over, or there is none.
-- $1 bulk operation, $2 why (null: a person stopped it)
update {schema}.bulk_operation set status = 'cancelled', finished_at = now(), stopped_because = $2::text
where  id = $1::bigint and status in ('waiting', 'running')
returning {bulk_operation}
