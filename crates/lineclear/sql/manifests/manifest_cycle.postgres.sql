-- manifest_cycle · the ancestors of these manifests, as pairs of child and parent, to find cycles
-- Visits each ancestor once, however many paths lead to it: all pairs of descendant and ancestor would be their square.
-- $1 manifest ids
with recursive above (id) as (
    select unnest($1::bigint[])
    union
    select p.parent_id from above join {schema}.manifest_parent p on p.child_id = above.id
)
select p.child_id, p.parent_id, m.key
from   above
join   {schema}.manifest_parent p on p.child_id = above.id
join   {schema}.manifest m on m.id = p.child_id
