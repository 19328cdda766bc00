-- dispatch_trial · whether jobs can move from work_queue to background_job
-- As in PostgreSQL: the caller rolls it back.
-- ?1 jobs
insert into background_job
       (id, {job}, rank, gated, failures, crashes, last_error, cancel_requested_at, was_due_at, leased_by,
        claim_no, claimed_at, started_at, due_at)
select id, {job}, rank, gated, failures, crashes, last_error, cancel_requested_at, due_at, null,
       claim_no + 1, null, null, now_us()
from   work_queue where id in (select value from json_each(?1))
