-- now · the database's clock
select now_us() as now
