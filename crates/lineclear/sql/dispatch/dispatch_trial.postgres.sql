-- dispatch_trial · whether jobs can move from work_queue to background_job
--
-- The caller rolls it back: a rule that refuses it would refuse the dispatch of one of these jobs.
-- Index: work_queue_pkey.
-- $1 jobs
insert into {schema}.background_job
       (id, {job}, rank, gated, failures, crashes, last_error, cancel_requested_at, was_due_at, leased_by,
        claim_no, claimed_at, started_at, due_at)
select id, {job}, rank, gated, failures, crashes, last_error, cancel_requested_at, due_at, null,
       claim_no + 1, null, null, now()
from   {schema}.work_queue where id = any ($1::bigint[])
