-- subscription_error · the last error of a subscription that goes on
-- $1 name, $2 version, $3 error
update {schema}.subscription_checkpoint set last_error = $3::text, failed_at = clock_timestamp()
where name = $1::text and version = $2::integer
returning position
