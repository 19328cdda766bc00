-- dispatch_groups · lock the groups of gated jobs that are next in rank and seem to have room
--
-- Two, not all: with every limited group locked, other dispatchers find nothing to do. What "seems" here is counted
-- again after the lock.
-- Indexes: work_queue_gated, background_job_group. Zero rows: no gated group can go on (or others are at it).
-- $1 route, $2 at most
with recursive waiting (group_id) as (
    (select group_id from {schema}.work_queue
     where  route = $1::text and phase = 'ready' and gated and group_id is not null
     order  by group_id limit 1)
    union all
    select (select w.group_id from {schema}.work_queue w
            where  w.route = $1::text and w.phase = 'ready' and w.gated and w.group_id > waiting.group_id
            order  by w.group_id limit 1)
    from   waiting where waiting.group_id is not null
)
select g.id
from   waiting
join   {schema}.manifest_group g on g.id = waiting.group_id
cross  join lateral (
           select rank from {schema}.work_queue
           where  route = $1::text and phase = 'ready' and gated and group_id = g.id
           order  by rank, id limit 1) head
where  g.enabled
       and (g.max_active is null or g.max_active > (select count(*) from {schema}.background_job where group_id = g.id))
order  by head.rank, g.id
limit  $2::bigint
for    no key update of g skip locked
