-- manifest_read · manifests by key
-- ?1 keys
select {manifest}, m.backoff, m.tags, m.declared, m.removed_at is not null as removed, now_us() as now
from   manifest m
left   join manifest_group g on g.id = m.group_id
where  m.key in (select value from json_each(?1))
order  by m.id
