-- state_lock · lock the state rows of manifests, by key
-- The transaction's write lock covers them.
-- ?1 keys
select s.manifest_id
from   manifest_state s join manifest m on m.id = s.manifest_id
where  m.key in (select value from json_each(?1))
order  by s.manifest_id
