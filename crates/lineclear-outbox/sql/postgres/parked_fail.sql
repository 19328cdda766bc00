-- parked_fail · a parked event failed again, and stays
-- $1 id, $2 attempts to charge, $3 error
update {schema}.subscription_parked set attempts = attempts + $2::integer, last_error = $3::text, replays = false
where id = $1::bigint
returning id
