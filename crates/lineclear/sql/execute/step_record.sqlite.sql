-- step_record · record the results of steps of running jobs in one statement; fenced by (job, claim number)
-- As in PostgreSQL. Returned: the steps that were recorded. A step that is missing: the claim was lost.
-- ?1 rows of job, claim number, name, turn, output or null, error or null, how long it took in µs
insert into job_step (job_id, name, claim_no, turn, output, error, started_at, finished_at)
select b.id, i.name, i.claim_no, i.turn, i.output, i.error, now_us() - i.took, now_us()
from   (
    select value ->> 0 as id, value ->> 1 as claim_no, value ->> 2 as name, value ->> 3 as turn, value ->> 4 as output,
           value ->> 5 as error, value ->> 6 as took
    from   json_each(?1)
) i join background_job b on b.id = i.id and b.claim_no = i.claim_no
where  b.leased_by is not null
on     conflict (job_id, name) do update
set    claim_no = excluded.claim_no, turn = excluded.turn, output = excluded.output, error = excluded.error,
       started_at = excluded.started_at, finished_at = excluded.finished_at
returning job_id, name
