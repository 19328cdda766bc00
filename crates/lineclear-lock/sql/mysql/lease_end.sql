-- lease_end · a hold ended otherwise than by its release: the row, if it is still that hold's, is held no more
update lock_lease set released_at = utc_timestamp(6), renewed_at = utc_timestamp(6)
where lock_name = :name and store = :store and epoch = :epoch and incarnation = coalesce(:incarnation, incarnation) and released_at is null
