-- manifest_cycle · what these manifests wait for, and what that waits for, and so on: who waits for whom, to find circles.
-- Each manifest above is looked at once, however many ways lead to it: pairs of all below and above would be their square.
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
