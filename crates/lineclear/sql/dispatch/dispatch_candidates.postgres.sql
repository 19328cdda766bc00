-- dispatch_candidates · the jobs of a route that dispatch moves next
--
-- Read only after a rule refused a dispatch, to find the row that it refused.
-- Indexes: work_queue_open, work_queue_gated. Zero rows: nothing is ready.
-- $1 route, $2 at most of each lane
(select id from {schema}.work_queue
 where  route = $1::text and phase = 'ready' and not gated
 order  by rank, id limit $2::bigint)
union all
(select id from {schema}.work_queue
 where  route = $1::text and phase = 'ready' and gated
 order  by group_id, rank, id limit $2::bigint)
