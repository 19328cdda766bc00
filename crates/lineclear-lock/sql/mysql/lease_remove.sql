-- lease_remove · the row of a holder that went away
delete from lock_lease where lock_name = :name and store = :store
