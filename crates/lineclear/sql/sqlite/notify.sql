-- notify · tell other nodes that there may be work
-- SQLite has nothing of the kind; other processes find it when they look.
-- ?1 channel
select ?1 as channel
