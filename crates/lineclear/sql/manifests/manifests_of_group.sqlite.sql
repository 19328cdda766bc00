-- manifests_of_group · the enabled manifests of a group
-- Zero rows: it has none.
-- ?1 group id, ?2 at most
select {m.job_template}
from   manifest m
where  m.group_id = ?1 and m.enabled and m.removed_at is null
order  by m.id
limit  ?2
