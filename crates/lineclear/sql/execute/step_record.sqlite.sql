-- step_record · record the result of a step of a running job; fenced by (job, claim number)
-- As in PostgreSQL. Zero rows: the claim was lost, and nothing was recorded.
-- ?1 job, ?2 claim number, ?3 name, ?4 turn, ?5 output or null, ?6 error or null, ?7 how long it took in µs
insert into job_step (job_id, name, claim_no, turn, output, error, started_at, finished_at)
select id, ?3, ?2, ?4, ?5, ?6, now_us() - ?7, now_us() from background_job
where  id = ?1 and claim_no = ?2 and leased_by is not null
on     conflict (job_id, name) do update
set    claim_no = excluded.claim_no, turn = excluded.turn, output = excluded.output, error = excluded.error,
       started_at = excluded.started_at, finished_at = excluded.finished_at
returning job_id
