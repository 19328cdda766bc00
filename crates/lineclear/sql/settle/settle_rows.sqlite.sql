-- settle_rows · the job rows of a batch
-- The transaction's write lock covers them all.
-- ?1 jobs
select id from background_job where id in (select value from json_each(?1)) order by id
