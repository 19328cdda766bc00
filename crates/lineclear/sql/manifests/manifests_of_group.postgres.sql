-- manifests_of_group · the enabled manifests of a group, locked against planner, trigger and editors
-- Zero rows: it has none.
-- $1 group id, $2 at most
select {m.job_template}
from   {schema}.manifest m
where  m.group_id = $1::bigint and m.enabled and m.removed_at is null
order  by m.id
limit  $2::bigint
for    no key update of m
