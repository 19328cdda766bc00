-- step_record · record the results of steps of running jobs in one statement; fenced by (job, claim number)
--
-- The jobs' rows are share-locked: a transaction that takes a job away waits for this one, or this one finds the row gone.
-- Returned: the steps that were recorded. A step that is missing: the claim was lost, and nothing was recorded for it.
-- $1.. job, claim number, name, turn, output or null, error or null, how long it took in µs
with input as materialized (
    select * from unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::bigint[])
                  as i (id, claim_no, name, turn, output, error, took)
),
fence as materialized (
    select b.id, b.claim_no from {schema}.background_job b
    where  b.id = any (array (select id from input)) and b.leased_by is not null
    order  by b.id for share
)
insert into {schema}.job_step (job_id, name, claim_no, turn, output, error, started_at, finished_at)
select i.id, i.name, i.claim_no, i.turn, i.output, i.error, now() - i.took * interval '1 microsecond', now()
from   input i join fence f on f.id = i.id and f.claim_no = i.claim_no
on     conflict (job_id, name) do update
set    claim_no = excluded.claim_no, turn = excluded.turn, output = excluded.output, error = excluded.error,
       started_at = excluded.started_at, finished_at = excluded.finished_at
returning job_id, name
