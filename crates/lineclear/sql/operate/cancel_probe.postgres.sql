-- cancel_probe · jobs of a node for which a cancel was requested
-- Index: background_job_cancel, which is empty most of the time. Zero rows: none.
-- $1 node
select id from {schema}.background_job where leased_by = $1::bigint and cancel_requested_at is not null
