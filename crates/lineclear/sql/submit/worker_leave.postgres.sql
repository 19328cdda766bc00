-- worker_leave · a remote worker has ended
-- $1 node
delete from {schema}.node where id = $1::bigint
