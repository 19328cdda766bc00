-- enqueue · new jobs → work_queue, from a caller, the planner, a completed parent or a trigger
--
-- The rank is written here, so that one index serves, and nothing can starve.
-- Only a fresh row may collide, with work_queue_fresh: its manifest has one waiting already. It is then not returned,
-- and the caller records the skip.
-- `not fresh or …` keeps the planner from joining the batch with itself row by row.
-- A job without a route of its own goes where the jobs of its kind go (kind_route).
-- An id that is null is drawn from the sequence. A delay is added here: the clocks of callers may differ.
-- $1.. one array per column
with drawn as materialized (
    -- Before the join, which may turn rows about: ids are in the order of the input.
    select coalesce(i.id, nextval('{schema}.job_id')) as id, i.manifest_id, i.tick_at, i.origin, i.fresh, i.kind, i.route,
           i.input, i.group_id, i.priority,
           coalesce(i.due_at, now()) + coalesce(i.delay_ms, 0) * interval '1 millisecond' as due_at, i.limit_key, i.unique_key,
           i.retries, i.timeout_ms, i.trace, i.tags, i.turn
    from   unnest($1::bigint[], $2::bigint[], $3::timestamptz[], $4::text[], $5::boolean[], $6::text[], $7::text[],
                  $8::text[], $9::bigint[], $10::bigint[], $11::timestamptz[], $12::text[], $13::text[], $14::bigint[],
                  $15::bigint[], $16::text[], $17::text[], $18::bigint[])
           with ordinality as i (id, manifest_id, tick_at, origin, fresh, kind, route, input, group_id, priority, due_at,
                                 limit_key, unique_key, retries, timeout_ms, trace, tags, delay_ms, turn)
),
input as materialized (
    select drawn.*, g.priority as group_priority, coalesce(g.gated, false) or limit_key is not null as gated,
           case when drawn.route = 'main' then coalesce(k.route, 'main') else drawn.route end as to_route
    from   drawn left join {schema}.manifest_group g on g.id = drawn.group_id
           left join {schema}.kind_route k on k.kind = drawn.kind
),
queued as (
    insert into {schema}.work_queue
           (id, manifest_id, tick_at, origin, fresh, kind, route, input, group_id, priority, due_at, phase, rank, gated,
            limit_key, unique_key, retries, timeout_ms, trace, tags)
    select id, manifest_id, tick_at, origin, fresh, kind, to_route,
           case when octet_length(input) <= 512 then input end, group_id, priority, due_at,
           {phase(due_at)},
           {rank(due_at, priority, group_priority)}, gated,
           limit_key, unique_key, retries, timeout_ms, trace, tags
    from   input
    order  by turn
    on conflict (manifest_id) where fresh do nothing
    returning id
),
payload as (
    insert into {schema}.job_payload (job_id, input)
    select id, input from input
    where  octet_length(input) > 512 and (not fresh or id in (select id from queued))
)
select id, turn - 1 as turn from input where not fresh or id in (select id from queued) order by turn
