-- claim · what a worker gets
id, (select m.backoff from {schema}.manifest m where m.id = manifest_id) as backoff, manifest_id, tick_at, origin, kind, route,
{whole_input(input, id)} as input, group_id, limit_key, retries, timeout_ms,
claim_no, failures, crashes, trace, was_due_at, claimed_at, due_at as lease_ends_at
