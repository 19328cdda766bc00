-- bulk_canary · record a check of a canary: the rest follows, the bulk operation stops, or the canary is checked again
-- The next check comes after a tenth of the time so far; no server holds the lease meanwhile.
-- $1 bulk operation, $2 whether the rest follows, $3 why it stops (null: it does not)
update {schema}.bulk_operation
set    status = case when $3::text is null then status else 'cancelled' end,
       finished_at = case when $3::text is not null then now() end, stopped_because = $3::text, leased_by = null,
       look_at = case when not $2::boolean and $3::text is null
                      then now() + least(greatest((now() - begun_at) / 10, interval '1 second'), interval '15 seconds') end
where  id = $1::bigint
returning {bulk_operation}
