-- parked_discard · deletes parked events; the events themselves stay in the log
-- $1 name, $2 ids
delete from {schema}.subscription_parked where name = $1::text and id = any ($2::bigint[]) returning id
