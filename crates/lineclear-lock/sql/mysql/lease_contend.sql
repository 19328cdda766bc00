-- lease_contend · adds how often a process found a lock busy to the row of its holder
update lock_lease set contended = contended + :busy, contended_at = utc_timestamp(6) where lock_name = :name and store = :store
