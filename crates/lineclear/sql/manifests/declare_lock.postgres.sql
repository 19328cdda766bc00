-- declare_lock · one declaration of manifests and groups at a time
-- Rare and short; it prevents every race of two nodes that start with the same declarations.
-- Nodes that start together wait here for each other, however long the first one declares: only the statement's deadline ends the wait.
-- $1 key
select set_config('lock_timeout', '0', true), pg_advisory_xact_lock($1::bigint)
