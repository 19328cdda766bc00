-- lease_end · stamps the row as released if it still belongs to a hold that ended without a release
update lock_lease set released_at = :now, renewed_at = :now
where lock_name = :name and store = :store and epoch = :epoch and incarnation = coalesce(:incarnation, incarnation) and released_at is null
