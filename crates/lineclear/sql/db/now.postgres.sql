-- now · the database's clock
select now() as now
