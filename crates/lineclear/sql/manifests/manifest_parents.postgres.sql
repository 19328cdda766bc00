-- manifest_parents · set the parents of these manifests; parents that are not named are removed
-- $1 children, $2.. parent, child
with input as materialized (
    select * from unnest($2::bigint[], $3::bigint[]) as i (parent_id, child_id)
),
dropped as (
    delete from {schema}.manifest_parent p
    where  p.child_id = any ($1::bigint[])
           and not exists (select from input i where i.parent_id = p.parent_id and i.child_id = p.child_id)
)
insert into {schema}.manifest_parent (parent_id, child_id)
select parent_id, child_id from input
on conflict (parent_id, child_id) do nothing
