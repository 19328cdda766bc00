-- enqueue_keys · take unique keys for jobs that are about to be enqueued, and draw their ids
-- As in PostgreSQL; the ids come from a counter row.
-- ?1 rows of key, kept for so many ms, hash of kind and input
insert into job_key (key, job_id, until, body_hash)
select value ->> 0, (select last from job_id) + row_number() over (order by value ->> 0), now_us() + (value ->> 1) * 1000,
       value ->> 2
from   json_each(?1)
where  true
on conflict (key) do update
set    job_id = excluded.job_id, until = excluded.until, body_hash = excluded.body_hash
where  job_key.until is not null and job_key.until <= now_us()
       and {job_is_nowhere(job_key.job_id)};
select key, job_id from job_key
where  key in (select value ->> 0 from json_each(?1)) and job_id > (select last from job_id);
update job_id set last = last + json_array_length(?1)
