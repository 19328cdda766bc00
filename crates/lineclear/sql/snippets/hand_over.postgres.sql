-- hand_over(node, lease_ms, ahead) · rows of work_queue → background_job; with a node, into a lease of that node
-- Ahead: of a free slot, so they do not count as started. The statement says from which rows. The clock is read after the locks are held: a lease does not run while its statement waits.
insert into {schema}.background_job
       (id, {job}, rank, gated, failures, crashes, last_error, cancel_requested_at, was_due_at, leased_by,
        claim_no, claimed_at, started_at, due_at)
select id, {job}, rank, gated, failures, crashes, last_error, cancel_requested_at, due_at, {node},
       claim_no + ({node} is not null)::int, case when {node} is not null then clock_timestamp() end,
       case when {node} is not null and crashes = 0 and not {ahead} then clock_timestamp() end,
       clock_timestamp() + coalesce({lease_ms}, 0) * interval '1 millisecond'
