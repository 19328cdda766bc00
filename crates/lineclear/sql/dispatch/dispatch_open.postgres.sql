-- dispatch_open · work_queue → background_job, the lane without limits
--
-- One statement: a job is in the one table or in the other, whenever we die. With a node given it goes straight into
-- a lease of that node.
-- Takes no lock but on the rows it moves. Rows of a gated group that still lie here (the gate came after them) are
-- not moved but refiled into the gated lane.
-- gated_rank is the rank of the best job in the gated lane that seems to have room. Bounded, this takes only what
-- ranks before it, so that the lanes together keep the order.
-- `handed` says that jobs of the route were dispatched to whoever claims.
-- `closed` says that the global gate is on: then nothing is taken unless the caller holds it.
-- Who has just taken a full batch begins where that ended ($7): rows that left lie in the index until a vacuum comes by,
-- and from the front the walk leads past all of them.
-- Index: work_queue_open. Always one row at least: with a null id if nothing was taken.
-- $1 route, $2 at most, $3 node or null, $4 lease in ms or null, $5 caller holds the global gate, $6 bounded,
-- $7 rank to begin at
with recursive waiting (group_id) as (
    -- From group to group in the index: those without work cost nothing.
    (select group_id from {schema}.work_queue
     where  route = $1::text and phase = 'ready' and gated and group_id is not null
     order  by group_id limit 1)
    union all
    select (select w.group_id from {schema}.work_queue w
            where  w.route = $1::text and w.phase = 'ready' and w.gated and w.group_id > waiting.group_id
            order  by w.group_id limit 1)
    from   waiting where waiting.group_id is not null
),
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
                where  g.enabled
                       and (g.max_active is null or g.max_active >
                            (select count(*) from {schema}.background_job where group_id = g.id))
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
    insert into {schema}.background_job
           (id, {job}, rank, gated, failures, crashes, last_error, cancel_requested_at, was_due_at, leased_by,
            claim_no, claimed_at, started_at, due_at)
    select id, {job}, rank, gated, failures, crashes, last_error, cancel_requested_at, due_at, $3::bigint,
           claim_no + ($3::bigint is not null)::int, case when $3::bigint is not null then now() end,
           case when $3::bigint is not null and crashes = 0 then now() end,
           now() + coalesce($4::bigint, 0) * interval '1 millisecond'
    from   moved
    returning *
)
select gate.closed, gate.gated_rank, (select count(*) from refiled) as refiled,
       (select true from {schema}.background_job where route = $1::text and leased_by is null
        order by rank, id limit 1) is not null as handed,
       rank, {claim}
from   gate left join handed on true
order  by rank, id
