-- count_ready · how many jobs are first in line, in the lane without limits?
-- As in PostgreSQL. Index: work_queue_open.
-- ?1 route, ?2 at most
select count(*) as jobs
from   (select 1 from work_queue where route = ?1 and phase = 'ready' and not gated order by rank, id limit ?2)
