-- free_keys(jobs) · the unique keys of jobs that are over are free again, unless they hold for a time that is not over
-- jobs: a query of unique key and job
delete from job_key
where  (key, job_id) in {jobs} and (until is null or until <= now_us())
