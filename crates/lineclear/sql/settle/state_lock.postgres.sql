-- state_lock · lock the state rows of manifests, by key, before the manifests themselves
-- The order of locks is state, then manifest: settle holds a state row when it buries a job and holds its manifest.
-- $1 keys
select s.manifest_id
from   {schema}.manifest_state s join {schema}.manifest m on m.id = s.manifest_id
where  m.key = any ($1::text[])
order  by s.manifest_id
for    no key update of s
