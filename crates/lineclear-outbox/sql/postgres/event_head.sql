-- event_head · the position of the last event that is committed
select coalesce(max(position), 0) as head from {schema}.event
