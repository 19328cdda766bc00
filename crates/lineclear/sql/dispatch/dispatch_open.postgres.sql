-- dispatch_open · work_queue → background_job, the lane without limits
--
-- One statement: at any moment the job is in exactly one of the two tables. With a node, it goes straight into a lease of that node.
-- Locks only the rows that it moves. Rows of a group that became gated after they were queued are not dispatched: they are
-- moved into the gated lane.
-- gated_rank is the best rank in the gated lane of a job whose group has room. A bounded dispatch takes only what ranks before
-- it, so that both lanes together keep the order.
-- `handed`: jobs of the route are dispatched and not leased.
-- `closed`: there is a global limit; nothing is taken unless the caller holds its lock.
-- After a full batch, the next dispatch begins where that one ended ($7): dead rows stay in the index until a vacuum, and a walk
-- from the front would pass all of them.
-- Index: work_queue_open. Always one row at least: with a null id if nothing was taken.
-- $1 route, $2 at most, $3 node or null, $4 lease in ms or null, $5 caller holds the global gate, $6 bounded,
-- $7 rank to begin at
with recursive {waiting_groups($1::text)},
gate as materialized (
    select exists (select from {schema}.manifest_group where name = '*' and gated) as closed,
           (select min(head.rank) from (
                select h.rank
                from   waiting
                join   {schema}.manifest_group g on g.id = waiting.group_id
                cross  join lateral (
                           select rank from {schema}.work_queue
                           where  route = $1::text and phase = 'ready' and gated and group_id = g.id
                           order  by rank, id limit 1) h
                where  {has_room}
                union all
                (select rank from {schema}.work_queue
                 where  route = $1::text and phase = 'ready' and gated and group_id is null
                 order  by group_id, rank, id limit 1)
            ) head) as gated_rank
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
    select id from picked
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
    {hand_over($3::bigint, $4::bigint)}
    from   moved
    returning *
)
select gate.closed, gate.gated_rank, (select count(*) from refiled) as refiled,
       (select true from {schema}.background_job where route = $1::text and leased_by is null
        order by rank, id limit 1) is not null as handed,
       rank, {claim}
from   gate left join handed on true
order  by rank, id
