-- dispatch_active · how many jobs are handed out?
-- Counted, not kept: a counter would have to be touched by every settle, and could drift.
select count(*) as active from {schema}.background_job
