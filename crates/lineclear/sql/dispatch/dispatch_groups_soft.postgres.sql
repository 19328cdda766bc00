-- dispatch_groups_soft · the groups of gated jobs that are next in rank and have room, without a lock, for soft limits
-- Indexes: work_queue_gated, background_job_group. Zero rows: no gated group has room.
-- $1 route, $2 at most
{groups_with_room}
