-- dispatch_groups_soft · the groups of gated jobs that are next in rank and have room, for soft limits
-- ?1 route, ?2 at most
{groups_with_room}
