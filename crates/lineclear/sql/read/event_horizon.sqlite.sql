-- event_horizon · the time up to which no further event can appear
-- There is one writer, and its rows carry the time at which it began to write; no transaction takes five seconds.
select now_us() - 5000000 as horizon, now_us() as now
