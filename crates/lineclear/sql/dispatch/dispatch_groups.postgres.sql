-- dispatch_groups · lock those of some groups whose gated jobs are next in rank and that have room
--
-- The caller asks for two: if it locked every limited group, other dispatchers would find nothing to do. The room is counted
-- again after the lock.
-- Indexes: work_queue_gated, background_job_group. Zero rows: none of them has room, or others hold its lock.
-- $1 route, $2 at most, $3 groups that may have room
{groups_with_room}
for    no key update of g skip locked
