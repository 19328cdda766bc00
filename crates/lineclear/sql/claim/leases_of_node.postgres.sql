-- leases_of_node · what does the database think that this node runs?
-- Reads all that is handed out: asked only after an answer was lost.
-- $1 node
select id, claim_no, manifest_id from {schema}.background_job where leased_by = $1::bigint order by id
