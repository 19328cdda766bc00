-- lease_remove · the row of a holder that went away, unless it has come back meanwhile
delete from lock_lease
where lock_name = :name and store = :store and incarnation = :incarnation and epoch = :epoch and released_at is null
  and renewed_at < :now - :quiet
returning 'its last sign of life was at ' || strftime('%Y-%m-%dT%H:%M:%SZ', renewed_at / 1000000.0, 'unixepoch')
