-- event_clean · deletes old events
delete from lock_event where at < utc_timestamp(6) - interval :keep microsecond order by at limit :limit
