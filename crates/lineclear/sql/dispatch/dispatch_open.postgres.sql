-- dispatch_open · work_queue → background_job, the lane without limits
--
-- One statement: at any moment the job is in exactly one of the two tables. With a node, it goes straight into a lease of that node.
-- Locks only the rows that it moves. Rows of a group that became gated after they were queued are not dispatched: they are
-- moved into the gated lane (`refiled` has their groups).
-- gated_rank is the best rank in the gated lane of a job whose group has room. A bounded dispatch takes only what ranks before
-- it, so that both lanes together keep the order.
-- The groups of the gated lane are read by jumps from group to group in the index, which takes long if many are full. So they are not
-- read every time ($8): meanwhile the caller names the groups to look at ($9). `waiting` is the number of groups that were read,
-- `with_room` those that have room, first in rank first.
-- `handed`: jobs of the route are dispatched and not leased.
-- `closed`: there is a global limit; nothing is taken unless the caller holds its lock.
-- After a full batch, the next dispatch begins where that one ended ($7): dead rows stay in the index until a vacuum, and a walk
-- from the front would pass all of them.
-- Indexes: work_queue_open, work_queue_gated. Always one row at least: with a null id if nothing was taken.
-- $1 route, $2 at most, $3 node or null, $4 lease in ms or null, $5 caller holds the global gate, $6 bounded,
-- $7 rank to begin at, $8 read all groups, $9 look at these groups, $10 at most so many with room, $11 leased ahead of a free slot
with recursive waiting (group_id) as (
    (select group_id from {schema}.work_queue
     where  $8::boolean and route = $1::text and phase = 'ready' and gated and group_id is not null
     order  by group_id limit 1)
    union all
    select (select w.group_id from {schema}.work_queue w
            where  w.route = $1::text and w.phase = 'ready' and w.gated and w.group_id > waiting.group_id
            order  by w.group_id limit 1)
    from   waiting where waiting.group_id is not null
),
heads as materialized (
    select g.id, h.rank
    from   (select group_id from waiting where group_id is not null union all select unnest($9::bigint[])) asked (group_id)
    join   {schema}.manifest_group g on g.id = asked.group_id
    cross  join lateral (
               select rank from {schema}.work_queue
               where  route = $1::text and phase = 'ready' and gated and group_id = g.id
               order  by rank, id limit 1) h
    where  {has_room}
    order  by h.rank, g.id
    limit  $10::bigint
),
gate as materialized (
    select exists (select from {schema}.manifest_group where name = '*' and gated) as closed,
           (select min(head.rank) from (
                select rank from heads
                union all
                (select rank from {schema}.work_queue
                 where  route = $1::text and phase = 'ready' and gated and group_id is null
                 order  by group_id, rank, id limit 1)
            ) head) as gated_rank,
           (select count(group_id) from waiting) as waiting,
           array_to_json(array (select id from heads order by rank, id))::text as with_room,
           -- A job without a lease may be lost by a crash: it waits again, with the same claim number.
           case when $3::bigint is not null then {durable} end as durable
),
picked as materialized (
    select id, group_id
    from   {schema}.work_queue
    where  route = $1::text and phase = 'ready' and not gated
           and (select $5::boolean or not closed from gate)
           and rank >= $7::bigint
           and rank <= (select case when $6::boolean then coalesce(gated_rank, 9223372036854775807)
                               else 9223372036854775807 end from gate)
    order  by rank, id
    limit  $2::bigint
    for    update skip locked
),
astray as materialized (
    select id, group_id from picked
    where  group_id is not null and exists (select from {schema}.manifest_group g where g.id = picked.group_id and g.gated)
),
refiled as (
    update {schema}.work_queue set gated = true where id = any (array (select id from astray)) returning id
),
moved as (
    delete from {schema}.work_queue
    where  id = any (array (select id from picked)) and not id = any (array (select id from astray))
    returning *
),
handed as (
    {hand_over($3::bigint, $4::bigint, $11::boolean)}
    from   moved
    returning *
)
select gate.closed, gate.gated_rank, gate.waiting, gate.with_room,
       array_to_json(array (select distinct group_id from astray))::text as refiled,
       (select true from {schema}.background_job where route = $1::text and leased_by is null
        order by rank, id limit 1) is not null as handed,
       rank, {claim}
from   gate left join handed on true
order  by rank, id
