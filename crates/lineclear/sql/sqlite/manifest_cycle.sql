-- manifest_cycle · does one of these manifests, over its parents, wait for itself?
-- ?1 manifest ids
with recursive above (child_id, parent_id) as (
    select child_id, parent_id from manifest_parent where child_id in (select value from json_each(?1))
    union
    select above.child_id, p.parent_id from above join manifest_parent p on p.child_id = above.parent_id
)
select m.key from above join manifest m on m.id = above.child_id where above.child_id = above.parent_id
order  by m.key limit 1
