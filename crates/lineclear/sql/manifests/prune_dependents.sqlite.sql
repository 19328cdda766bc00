-- prune_dependents · manifests that stay and depend on one that goes
-- Zero rows: there are none.
-- ?1 manifests that go, ?2 at most
select c.key as child, m.key as parent
from   manifest_parent p
join   manifest c on c.id = p.child_id
join   manifest m on m.id = p.parent_id
where  p.parent_id in (select value from json_each(?1)) and p.child_id not in (select value from json_each(?1))
order  by c.key, m.key limit ?2
