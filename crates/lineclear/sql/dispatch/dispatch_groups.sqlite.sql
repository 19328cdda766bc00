-- dispatch_groups · those of some groups whose gated jobs are next in rank and that have room
-- ?1 route, ?2 at most, ?3 groups that may have room
{groups_with_room}
