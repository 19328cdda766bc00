-- manifest_cycle · the ancestors of these manifests, as pairs of child and parent, to find cycles
-- ?1 manifest ids
with recursive above (id) as (
    select value from json_each(?1)
    union
    select p.parent_id from above join manifest_parent p on p.child_id = above.id
)
select p.child_id, p.parent_id, m.key
from   above
join   manifest_parent p on p.child_id = above.id
join   manifest m on m.id = p.child_id
