-- step_record · record the result of a step of a running job; fenced by (job, claim number)
--
-- The job's row is share-locked: a transaction that takes the job away waits for this one, or this one finds the row gone.
-- Zero rows: the claim was lost, and nothing was recorded.
-- $1 job, $2 claim number, $3 name, $4 turn, $5 output or null, $6 error or null, $7 how long it took in µs
with fence as materialized (
    select id from {schema}.background_job
    where  id = $1::bigint and claim_no = $2::bigint and leased_by is not null for share
)
insert into {schema}.job_step (job_id, name, claim_no, turn, output, error, started_at, finished_at)
select id, $3::text, $2::bigint, $4::bigint, $5::text, $6::text, now() - $7::bigint * interval '1 microsecond', now() from fence
on     conflict (job_id, name) do update
set    claim_no = excluded.claim_no, turn = excluded.turn, output = excluded.output, error = excluded.error,
       started_at = excluded.started_at, finished_at = excluded.finished_at
returning job_id
