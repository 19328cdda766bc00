-- prune_find · manifests of an owner that a declaration no longer has
-- Manifests that a person made (of which nothing was ever declared) stay. Index: manifest_owner.
-- $1 owner, $2 how their keys begin, $3 keys that are declared, $4 at most
select m.key
from   {schema}.manifest m
where  m.owner = $1::text and m.removed_at is null and starts_with(m.key, $2::text) and m.declared <> '{}'
       and not exists (select from unnest($3::text[]) as k (key) where k.key = m.key)
order  by m.key limit $4::bigint
