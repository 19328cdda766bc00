-- dispatch_groups_soft · those of some groups whose gated jobs are next in rank and that have room, without a lock, for soft limits
-- Indexes: work_queue_gated, background_job_group. Zero rows: none of them has room.
-- $1 route, $2 at most, $3 groups that may have room
{groups_with_room}
