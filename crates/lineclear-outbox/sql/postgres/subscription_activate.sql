-- subscription_activate · a rebuild becomes the active one
-- $1 name, $2 version
update {schema}.subscription_checkpoint set active = true, swaps = false, updated_at = clock_timestamp()
where name = $1::text and version = $2::integer and not active
returning version
