-- health_leader · the node that planned last, according to its heartbeats; takes no lock
-- Zero rows: no node has planned yet.
select node, machine, pid, since_at, renewed_at, renew_ms, released_at
from   lock_lease where lock_name = 'planner' and store = 'engine'
