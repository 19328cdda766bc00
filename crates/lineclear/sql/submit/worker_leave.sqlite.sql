-- worker_leave · a remote worker has ended
-- ?1 node
delete from node where id = ?1
