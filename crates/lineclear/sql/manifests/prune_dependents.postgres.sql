-- prune_dependents · manifests that stay and depend on one that goes
-- Zero rows: there are none.
-- $1 manifests that go, $2 at most
select c.key as child, m.key as parent
from   {schema}.manifest_parent p
join   {schema}.manifest c on c.id = p.child_id
join   {schema}.manifest m on m.id = p.parent_id
where  p.parent_id = any ($1::bigint[])
       and not exists (select from unnest($1::bigint[]) as g (id) where g.id = p.child_id)
order  by c.key, m.key limit $2::bigint
