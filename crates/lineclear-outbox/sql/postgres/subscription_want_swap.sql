-- subscription_want_swap · a rebuild replaces the active one as soon as it has caught up
-- $1 name
update {schema}.subscription_checkpoint set swaps = true, updated_at = clock_timestamp() where name = $1::text and not active returning version
