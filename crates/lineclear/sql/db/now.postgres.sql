-- now · what time is it here?
select now() as now
