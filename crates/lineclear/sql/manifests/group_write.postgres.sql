-- group_write · insert or update a group
-- A gate, once added, stays: see the table. When the priority changes, waiting jobs get their new rank later, a batch at a time.
-- A new limit binds every dispatch that begins after this commits.
-- $1.. name, limit, priority, enabled, declared
insert into {schema}.manifest_group as g (name, max_active, priority, enabled, gated, declared)
select name, max_active, priority, enabled, max_active is not null or not enabled, declared
from   unnest($1::text[], $2::bigint[], $3::bigint[], $4::boolean[], $5::text[])
       as i (name, max_active, priority, enabled, declared)
order  by name
on conflict (name) do update
set    max_active = excluded.max_active, priority = excluded.priority, enabled = excluded.enabled,
       gated = g.gated or excluded.gated, declared = excluded.declared, version = g.version + 1,
       restamp_after = case when g.priority = excluded.priority then g.restamp_after else 0 end
returning id, name, version
