-- explain_limits · a group, the group of all and a key: their limits, and a few of the jobs that fill them
-- Counted up to ?4: an answer must not need a count of millions. Groups and keys without a limit are not counted.
-- Indexes: background_job_group, background_job_limit_key.
-- ?1 group or null, ?2 key or null, ?3 jobs of each at most, ?4 count up to
with gate as (
    select 'group' as scope, name, enabled, max_active,
           case when max_active is not null then
                (select count(*) from (select 1 from background_job b where b.group_id = ?1 limit ?4) c)
           else 0 end as active
    from   manifest_group where id = ?1
    union all
    select 'global', name, enabled, max_active,
           case when max_active is not null then
                (select count(*) from (select 1 from background_job b where b.id > 0 order by b.id limit ?4) c)
           else 0 end
    from   manifest_group where name = '*'
    union all
    select 'key', ?2, 1, coalesce((select k.max from limit_key k where k.key = ?2), 1),
           (select count(*) from (select 1 from background_job b where b.limit_key = ?2 limit ?4) c)
    where  ?2 is not null
),
holder as (
    select * from (select 'group' as scope, id, leased_by from background_job where group_id = ?1 limit ?3)
    union all
    select * from (select 'global', id, leased_by from background_job where id > 0 order by id limit ?3)
    union all
    select * from (select 'key', id, leased_by from background_job where limit_key = ?2 limit ?3)
)
select gate.*, h.id as job, coalesce(n.name, 'node ' || h.leased_by) as node_name
from   gate
left   join holder h on h.scope = gate.scope
left   join node n on n.id = h.leased_by
order  by gate.scope, h.id
