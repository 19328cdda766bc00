-- lease_remove · deletes the row of a holder that vanished
delete from lock_lease where lock_name = :name and store = :store
