-- dispatch_active · how many jobs are handed out?
select count(*) as active from background_job
