-- dispatch_candidates · the jobs of a route that dispatch moves next
-- As in PostgreSQL. Indexes: work_queue_open, work_queue_gated.
-- ?1 route, ?2 at most of each lane
select * from (select id from work_queue where route = ?1 and phase = 'ready' and not gated order by rank, id limit ?2)
union all
select * from (select id from work_queue where route = ?1 and phase = 'ready' and gated
               order by group_id, rank, id limit ?2)
