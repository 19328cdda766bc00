-- dispatch_groups · lock the groups of gated jobs that are next in rank and have room
--
-- The caller asks for two: if it locked every limited group, other dispatchers would find nothing to do. The room is counted
-- again after the lock.
-- Indexes: work_queue_gated, background_job_group. Zero rows: no gated group has room, or others hold its lock.
-- $1 route, $2 at most
{groups_with_room}
for    no key update of g skip locked
