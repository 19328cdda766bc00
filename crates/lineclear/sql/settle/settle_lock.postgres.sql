-- settle_lock · lock the rows that a batch with completed manifest jobs writes, always in the same order
--
-- Job rows by id come first (settle_rows); then the state rows of the batch's manifests and of all their children,
-- together, by id. In two steps, two batches that complete each other's parents would deadlock.
-- $1 manifests of the batch
select manifest_id
from   {schema}.manifest_state
where  manifest_id = any ($1::bigint[])
       or manifest_id = any (array (select child_id from {schema}.manifest_parent where parent_id = any ($1::bigint[])))
order  by manifest_id
for    no key update
