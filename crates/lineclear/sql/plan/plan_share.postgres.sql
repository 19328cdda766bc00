-- plan_share · when more is due than a cycle takes: a share for every group, locked
--
-- The oldest come first (plan_due); a group with a hundred thousand due manifests must not keep the others from theirs.
-- At most $2 groups; of more than that, another part each time.
-- Index: manifest_due_group. Manifests that plan_due took come again, and are told apart by the caller.
-- $1 at most per group, $2 groups at most
with chosen as materialized (
    select id from {schema}.manifest_group
    where  id >= (select floor(random() * greatest(count(*) - $2::bigint, 0) + min(id)) from {schema}.manifest_group)
    order  by id limit $2::bigint
)
select m.*, coalesce(g.enabled, true) as group_enabled, now() as now
from   (select d.* from chosen
        cross  join lateral (
                   select {job_template}, spec, planned_through from {schema}.manifest
                   where  group_id = chosen.id and enabled and not held and next_due_at <= now()
                   order  by next_due_at, id limit $1::bigint
                   for    no key update skip locked) d
        union all
        select d.* from (
                   select {job_template}, spec, planned_through from {schema}.manifest
                   where  group_id is null and enabled and not held and next_due_at <= now()
                   order  by next_due_at, id limit $1::bigint
                   for    no key update skip locked) d) m
left   join {schema}.manifest_group g on g.id = m.group_id
