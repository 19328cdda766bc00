-- parked_replay · parked events are handled again
-- $1 name, $2 ids
update {schema}.subscription_parked set replays = true where name = $1::text and id = any ($2::bigint[]) returning id
