-- dispatch_groups · the groups of gated jobs that are next in rank and have room
-- ?1 route, ?2 at most
{groups_with_room}
