-- notify · tell other nodes that there may be work, or that standing orders have changed
-- SQLite has nothing of the kind; other processes find it when they look.
-- ?1 channel, ?2 what
select ?1 as channel, ?2 as what
