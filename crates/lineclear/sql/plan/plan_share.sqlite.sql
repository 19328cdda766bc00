-- plan_share · when more is due than a cycle takes: a share for every group
-- As in PostgreSQL. Index: manifest_due_group.
-- ?1 at most per group, ?2 groups at most
with chosen as materialized (
    select id from manifest_group
    where  id >= (select abs(random()) % (max(count(*) - ?2, 0) + 1) + min(id) from manifest_group)
    order  by id limit ?2
)
select {job_template}, spec, planned_through, coalesce((select g.enabled from manifest_group g where g.id = group_id), 1) as group_enabled, now_us() as now
from   manifest
where  id in (select m.id from chosen join manifest m on m.id in (
                  select d.id from manifest d indexed by manifest_due_group
                  where  d.group_id = chosen.id and d.enabled and not d.held and d.next_due_at is not null and d.next_due_at <= now_us()
                  order  by d.next_due_at, d.id limit ?1))
       or id in (select d.id from manifest d indexed by manifest_due_group
                 where  d.group_id is null and d.enabled and not d.held and d.next_due_at is not null and d.next_due_at <= now_us()
                 order  by d.next_due_at, d.id limit ?1)
