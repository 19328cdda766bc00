-- settle_lock · lock what the completion of these manifests is going to write: their states and those of their dependents
--
-- Only of manifests with dependents: completions of all others need no order. States that another transaction holds are skipped, so
-- that two batches that complete each other's parents cannot deadlock, and no batch waits for a foreign lock. `held`: all states of the family are
-- locked; the settlements of other families are tried again.
-- Index: manifest_parent's key. Zero rows: no manifest of the batch has dependents.
-- $1 manifests of the batch
with family as materialized (
    select parent_id, child_id from {schema}.manifest_parent where parent_id = any ($1::bigint[])
),
locked as materialized (
    select s.manifest_id from {schema}.manifest_state s
    where  s.manifest_id = any (array (select parent_id from family union select child_id from family))
    order  by s.manifest_id
    for    no key update skip locked
)
select f.parent_id as manifest_id,
       bool_and(exists (select from locked where locked.manifest_id = f.parent_id)
                and exists (select from locked where locked.manifest_id = f.child_id)) as held
from   family f
group  by f.parent_id
