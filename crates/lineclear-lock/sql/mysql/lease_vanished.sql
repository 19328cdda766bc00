-- lease_vanished · the row of a holder that vanished and did not come back, locked, with its last renewal; no row: it came back
select concat('last renewed at ', date_format(renewed_at, '%Y-%m-%dT%H:%i:%sZ')) as why
from lock_lease
where lock_name = :name and store = :store and incarnation = :incarnation and epoch = :epoch and released_at is null
  and renewed_at < utc_timestamp(6) - interval :quiet microsecond
for update
