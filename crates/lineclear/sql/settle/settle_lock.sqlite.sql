-- settle_lock · state rows of completed manifests and their children
-- The transaction's write lock covers them all.
-- ?1 manifests of the batch
select manifest_id from manifest_state where manifest_id in (select value from json_each(?1))
