-- lease_vanished · whether the holder of a row is still away, and its last sign of life; the row is locked
select concat('its last sign of life was at ', date_format(renewed_at, '%Y-%m-%dT%H:%i:%sZ'))
from lock_lease
where lock_name = :name and store = :store and incarnation = :incarnation and epoch = :epoch and released_at is null
  and renewed_at < utc_timestamp(6) - interval :quiet microsecond
for update
