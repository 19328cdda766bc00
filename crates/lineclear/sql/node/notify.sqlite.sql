-- notify · tell other nodes that there may be work, or that standing orders have changed
-- A no-op: SQLite has no notifications; other processes find the work when they poll.
-- ?1 channel, ?2 what
select ?1 as channel, ?2 as what
