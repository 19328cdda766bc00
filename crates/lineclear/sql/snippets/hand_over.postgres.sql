-- hand_over(node, lease_ms) · rows of work_queue → background_job; with a node, into a lease of that node
-- The statement says from which rows.
insert into {schema}.background_job
       (id, {job}, rank, gated, failures, crashes, last_error, cancel_requested_at, was_due_at, leased_by,
        claim_no, claimed_at, started_at, due_at)
select id, {job}, rank, gated, failures, crashes, last_error, cancel_requested_at, due_at, {node},
       claim_no + ({node} is not null)::int, case when {node} is not null then now() end,
       case when {node} is not null and crashes = 0 then now() end,
       now() + coalesce({lease_ms}, 0) * interval '1 millisecond'
