-- declare_lock · one declaration of manifests and groups at a time
-- Rare and short; it prevents every race of two nodes that start with the same declarations.
-- $1 key
select pg_advisory_xact_lock($1::bigint)
