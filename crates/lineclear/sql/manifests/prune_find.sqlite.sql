-- prune_find · manifests of an owner that a declaration no longer has
-- Manifests that a person made (of which nothing was ever declared) stay. Index: manifest_owner.
-- ?1 owner, ?2 how their keys begin, ?3 keys that are declared, ?4 at most
select m.key
from   manifest m
where  m.owner = ?1 and m.removed_at is null and substr(m.key, 1, length(?2)) = ?2 and m.declared <> '{}'
       and m.key not in (select value from json_each(?3))
order  by m.key limit ?4
