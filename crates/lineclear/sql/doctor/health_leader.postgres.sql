-- health_leader · the node that planned last, as its heartbeats say; nothing waits for it
-- Zero rows: nobody has planned anything yet.
select node, machine, pid, since_at, renewed_at, renew_ms, released_at
from   {schema}.lock_lease where lock_name = 'planner' and store = 'engine'
