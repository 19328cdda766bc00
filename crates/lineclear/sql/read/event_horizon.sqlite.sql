-- event_horizon · up to when everything that will ever have happened can be seen
-- There is one writer, and its time is taken when it begins to write: five seconds are more than it takes.
select now_us() - 5000000 as horizon, now_us() as now
