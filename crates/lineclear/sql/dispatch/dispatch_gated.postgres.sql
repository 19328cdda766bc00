-- dispatch_gated · work_queue → background_job, the lane with limits
--
-- The caller has locked the groups and keys in earlier statements: counting under the snapshot that waited for the lock
-- would miss what its last holder committed, and a limit of one would let two through.
-- Active is every row of background_job. A job whose key is full is marked held, out of the way; wake_keys brings it
-- back. A job whose key the caller has not locked is left alone.
-- `held` is the number of jobs that were marked: others wait behind them.
-- Indexes: work_queue_gated, background_job_group, background_job_limit_key. Always one row at least: with a null id if
-- nothing was taken.
-- $1 route, $2 at most, $3 node or null, $4 lease in ms or null, $5 locked groups, $6 locked keys, $7 look at so many
with one as materialized (
    select case when $3::bigint is not null then {durable} end as durable
),
room as materialized (
    select g.id, case when g.max_active is null then $7::bigint
                 else g.max_active - (select count(*) from {schema}.background_job where group_id = g.id) end as places
    from   {schema}.manifest_group g
    where  g.id = any ($5::bigint[]) and g.enabled
),
key_room as materialized (
    select k.key, k.max - (select count(*) from {schema}.background_job where limit_key = k.key) as places
    from   {schema}.limit_key k
    where  k.key = any ($6::text[])
),
next as materialized (
    select w.id, w.rank, w.group_id, w.limit_key
    from   room
    cross  join lateral (
               select id, rank, group_id, limit_key from {schema}.work_queue
               where  route = $1::text and phase = 'ready' and gated and group_id = room.id
               order  by rank, id limit $7::bigint
               for    update skip locked) w
    union all
    select loose.id, loose.rank, loose.group_id, loose.limit_key
    from   (select id, rank, group_id, limit_key from {schema}.work_queue
            where  route = $1::text and phase = 'ready' and gated and group_id is null
            order  by group_id, rank, id limit $7::bigint
            for    update skip locked) loose
),
fits as materialized (
    -- Groups first: a job that its group holds back must not take its key's slot from another.
    select n.* from (
        select next.*, row_number() over (partition by group_id order by rank, id) as group_turn from next
    ) n left join room on room.id = n.group_id
    where  n.group_id is null or n.group_turn <= room.places
),
keyed as materialized (
    select f.id, f.rank, f.limit_key, k.places,
           row_number() over (partition by f.limit_key order by f.rank, f.id) as key_turn
    from   fits f left join key_room k on k.key = f.limit_key
),
chosen as materialized (
    select id from keyed where limit_key is null or key_turn <= places order by rank, id limit $2::bigint
),
held as (
    update {schema}.work_queue set phase = 'held' where id = any (array (select id from keyed where key_turn > places))
    returning id
),
moved as (
    delete from {schema}.work_queue where id = any (array (select id from chosen)) returning *
),
handed as (
    {hand_over($3::bigint, $4::bigint, false)}
    from   moved
    returning *
)
select (select count(*) from held) as held, {claim}
from   one left join handed on true
order  by rank, id
