-- hand_over(node, lease_ms, ahead) · rows of work_queue → background_job; with a node, into a lease of that node
-- Ahead: of a free slot, so they do not count as started. The statement says from which rows.
insert into background_job
       (id, {job}, rank, gated, failures, crashes, last_error, cancel_requested_at, was_due_at, leased_by,
        claim_no, claimed_at, started_at, due_at)
select id, {job}, rank, gated, failures, crashes, last_error, cancel_requested_at, due_at, {node},
       claim_no + ({node} is not null), iif({node} is null, null, now_us()), iif({node} is null or crashes > 0 or {ahead}, null, now_us()),
       now_us() + coalesce({lease_ms}, 0) * 1000
