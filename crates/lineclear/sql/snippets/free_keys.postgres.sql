-- free_keys(jobs) · the unique keys of jobs that are over are free again, unless they hold for a time that is not over
-- A key that another transaction holds is skipped: the next enqueue takes it over, or the cleaner removes it.
-- jobs: a query of unique key and job
delete from {schema}.job_key
where  key = any (array (
           select k.key from {schema}.job_key k join {jobs} as j (unique_key, job_id) on j.unique_key = k.key and j.job_id = k.job_id
           where  k.until is null or k.until <= now()
           order  by k.key for update of k skip locked))
