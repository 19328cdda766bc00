-- lease_contend · how often a process found a lock busy, added to the row of who holds it
update lock_lease set contended = contended + :busy, contended_at = :now where lock_name = :name and store = :store
