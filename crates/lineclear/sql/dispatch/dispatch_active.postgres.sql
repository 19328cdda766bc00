-- dispatch_active · how many jobs are handed out?
-- Counted when needed: every settle would have to update a counter, and the counter could drift.
select count(*) as active from {schema}.background_job
