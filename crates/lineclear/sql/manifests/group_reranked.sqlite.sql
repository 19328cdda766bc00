-- group_reranked · waiting jobs of a group have their rank up to this one; null: all of them
-- Zero rows: the group was written meanwhile, or another node was as far; the next one sees what holds.
-- ?1 group, ?2 its version, ?3 how far it was, ?4 how far it is
update manifest_group set restamp_after = ?4
where  id = ?1 and version = ?2 and restamp_after = ?3
returning id
