-- dispatch_groups_soft · those of some groups whose gated jobs are next in rank and that have room, for soft limits
-- ?1 route, ?2 at most, ?3 groups that may have room
{groups_with_room}
