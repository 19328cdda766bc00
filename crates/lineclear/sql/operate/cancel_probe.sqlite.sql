-- cancel_probe · jobs of a node for which a cancel was requested
-- Index: background_job_cancel.
-- ?1 node
select id from background_job where leased_by = ?1 and cancel_requested_at is not null
