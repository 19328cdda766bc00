-- bulk_canary · record a check of a canary: the rest follows, the bulk operation stops, or the canary is checked again
-- As in PostgreSQL.
-- ?1 bulk operation, ?2 whether the rest follows, ?3 why it stops (null: it does not)
update bulk_operation
set    status = iif(?3 is null, status, 'cancelled'),
       finished_at = iif(?3 is null, null, now_us()), stopped_because = ?3, leased_by = null,
       look_at = iif(not ?2 and ?3 is null, now_us() + min(max((now_us() - begun_at) / 10, 1000000), 15000000), null)
where  id = ?1
returning {bulk_operation}
