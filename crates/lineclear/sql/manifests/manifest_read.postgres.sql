-- manifest_read · manifests by key, locked against planner, trigger and other editors
-- $1 keys
select {manifest}, m.backoff, m.tags, m.declared, m.removed_at is not null as removed, now() as now
from   {schema}.manifest m
left   join {schema}.manifest_group g on g.id = m.group_id
where  m.key = any ($1::text[])
order  by m.id
for    no key update of m
