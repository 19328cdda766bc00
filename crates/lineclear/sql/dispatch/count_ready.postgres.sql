-- count_ready · how many jobs are first in line, in the lane without limits?
-- Without a lock: what a dispatcher gets less than this, others have taken. Only for debug logs.
-- Index: work_queue_open.
-- $1 route, $2 at most
select count(*) as jobs
from   (select from {schema}.work_queue
        where  route = $1::text and phase = 'ready' and not gated
        order  by rank, id limit $2::bigint) first
