-- group_write · insert or update a group
-- ?1 rows of name, limit, priority, enabled, declared
insert into manifest_group (name, max_active, priority, enabled, gated, declared)
select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 1 is not null or not value ->> 3, value ->> 4
from   json_each(?1)
where  true
order  by value ->> 0
on conflict (name) do update
set    max_active = excluded.max_active, priority = excluded.priority, enabled = excluded.enabled,
       gated = manifest_group.gated or excluded.gated, declared = excluded.declared, version = manifest_group.version + 1,
       restamp_after = case when manifest_group.priority = excluded.priority then manifest_group.restamp_after else 0 end
returning id, name, version
