-- retry_dead · the dead letters of jobs that await a person
-- As in PostgreSQL. Index: dead_letter_awaiting.
-- ?1 jobs
select id, job_id, manifest_id from dead_letter
where  job_id in (select value from json_each(?1)) and status = 'awaiting'
order  by id
