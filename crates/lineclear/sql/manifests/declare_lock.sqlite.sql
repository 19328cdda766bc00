-- declare_lock · one declaration of manifests and groups at a time
-- The transaction's write lock ensures it.
select 1 as locked
