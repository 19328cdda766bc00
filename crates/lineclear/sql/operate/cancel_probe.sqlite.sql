-- cancel_probe · jobs of a node that somebody wants to stop
-- Index: background_job_cancel.
-- ?1 node
select id from background_job where leased_by = ?1 and cancel_requested_at is not null
