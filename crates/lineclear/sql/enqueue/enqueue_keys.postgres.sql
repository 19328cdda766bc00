-- enqueue_keys · take unique keys for jobs that are about to be enqueued, and draw their ids
--
-- A key that ran out is taken over. The loser of a race waits here until the winner commits, and then gets no row:
-- enqueue_owners then reads which job has the key, in a separate statement, because this one's snapshot is older than
-- the winner's commit. The caller sends each key once: a key twice in one statement is an error (21000).
-- Index: job_key_once. Zero rows: every key is taken.
-- $1 keys, $2 kept for so many milliseconds after now at least (null: while the job lives), $3 hashes of kind and input
insert into {schema}.job_key as taken (key, job_id, until, body_hash)
select input.key, nextval('{schema}.job_id'), now() + input.keep_ms * interval '1 millisecond', input.body_hash
from   unnest($1::text[], $2::bigint[], $3::bigint[]) as input (key, keep_ms, body_hash)
order  by input.key
on conflict (key) do update
set    job_id = excluded.job_id, until = excluded.until, body_hash = excluded.body_hash
where  taken.until is not null and taken.until <= now()
       and {job_is_nowhere(taken.job_id)}
returning key, job_id
