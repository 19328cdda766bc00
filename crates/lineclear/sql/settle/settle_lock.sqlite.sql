-- settle_lock · the states of completed manifests and of their dependents
-- The transaction's write lock covers them all.
-- ?1 manifests of the batch
select distinct parent_id as manifest_id, 1 as held from manifest_parent where parent_id in (select value from json_each(?1))
