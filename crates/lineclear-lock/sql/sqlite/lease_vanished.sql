-- lease_vanished · the row of a holder that vanished and did not come back, with its last renewal; no row: it came back
select 'last renewed at ' || strftime('%Y-%m-%dT%H:%M:%SZ', renewed_at / 1000000.0, 'unixepoch') as why
from lock_lease
where lock_name = :name and store = :store and incarnation = :incarnation and epoch = :epoch and released_at is null
  and renewed_at < :now - :quiet
