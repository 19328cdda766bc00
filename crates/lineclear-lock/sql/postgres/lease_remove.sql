-- lease_remove · deletes the row of a holder that vanished and inserts the event; no row: the holder has renewed it since
-- $1 name, $2 store, $3 incarnation, $4 epoch, $5 not renewed for so many microseconds
with gone as (
  delete from {schema}.lock_lease
  where lock_name = $1 and store = $2 and incarnation = $3 and epoch = $4 and released_at is null
    and renewed_at < now() - $5 * interval '1 microsecond'
  returning *
)
insert into {schema}.lock_event (lock_name, store, what, holder, epoch, why)
select lock_name, store, 'vanished', machine || '/' || pid || '/' || incarnation, epoch,
  'last renewed at ' || to_char(renewed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
from gone
returning id
