-- now · what time is it here?
select now_us() as now
