-- event_clean · deletes old events
delete from lock_event where id in (select id from lock_event where at < :now - :keep order by at limit :limit)
