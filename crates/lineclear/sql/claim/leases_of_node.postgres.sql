-- leases_of_node · the claims that this node holds according to the database
-- Reads every dispatched job: used only after an answer was lost. Not those of the route `inline`: callers lease them, and run them at once.
-- $1 node
select id, claim_no, manifest_id from {schema}.background_job where leased_by = $1::bigint and route <> 'inline' order by id
