-- parked_done · a parked event was handled
-- $1 id, $2 name, $3 version. No row: it was discarded meanwhile, or its subscription does not run
delete from {schema}.subscription_parked p using {schema}.subscription_checkpoint c
where p.id = $1::bigint and p.replays and c.name = $2::text and c.version = $3::integer and c.state = 'running'
returning p.id
