-- dispatch_keys · lock the limit keys of the jobs that could go next; insert the missing ones
--
-- Enqueue never touches limit_key: a caller's open transaction would block all dispatchers. Inserts and locks go in key
-- order. A key that another dispatcher holds is skipped, and its jobs with it.
-- $1 route, $2 locked groups, $3 at most per group
with wanted as materialized (
    select distinct limit_key as key from (
        select w.limit_key
        from   unnest($2::bigint[]) as g (id)
        cross  join lateral (
                   select limit_key from {schema}.work_queue
                   where  route = $1::text and phase = 'ready' and gated and group_id = g.id
                   order  by rank, id limit $3::bigint) w
        union all
        (select limit_key from {schema}.work_queue
         where  route = $1::text and phase = 'ready' and gated and group_id is null
         order  by group_id, rank, id limit $3::bigint)
    ) next where limit_key is not null
),
made as (
    insert into {schema}.limit_key (key) select key from wanted order by key on conflict (key) do nothing returning key
),
locked as materialized (
    select key from {schema}.limit_key where key = any (array (select key from wanted)) order by key
    for    no key update skip locked
)
select key from made union select key from locked
