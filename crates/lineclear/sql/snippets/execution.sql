-- execution · an execution as it is shown
job_id, claim_no, final, outcome, node, (select n.name from {schema}.node n where n.id = node) as node_name, output, error_type, error_message,
fingerprint, created_at, due_at, claimed_at, started_at, finished_at
