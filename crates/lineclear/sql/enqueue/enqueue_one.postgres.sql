-- enqueue_one · one new job → work_queue
--
-- As enqueue, for a row that is not fresh. Most callers send one job at a time, and planning a statement over arrays takes longer
-- than running it.
-- Always one row.
-- $1 id or null, $2 manifest, $3 tick, $4 origin, $5 kind, $6 route, $7 input, $8 group, $9 priority, $10 due or null, $11 limit key,
-- $12 unique key, $13 retries, $14 timeout in ms, $15 trace, $16 tags, $17 delay in ms
with queued as (
    insert into {schema}.work_queue
           (id, manifest_id, tick_at, origin, fresh, kind, route, input, group_id, priority, due_at, phase, rank, gated,
            limit_key, unique_key, retries, timeout_ms, trace, tags)
    select coalesce($1::bigint, nextval('{schema}.job_id')), $2::bigint, $3::timestamptz, $4::text, false, $5::text,
           case when $6::text = 'main' then coalesce(k.route, 'main') else $6::text end,
           case when octet_length($7::text) <= 512 then $7::text end, $8::bigint, $9::bigint, d.due_at,
           {phase(d.due_at)},
           {rank(d.due_at, $9::bigint, g.priority)}, coalesce(g.gated, false) or $11::text is not null,
           $11::text, $12::text, $13::bigint, $14::bigint, $15::text, $16::text
    from   (select coalesce($10::timestamptz, now()) + coalesce($17::bigint, 0) * interval '1 millisecond' as due_at) d
           left join {schema}.manifest_group g on g.id = $8::bigint
           left join {schema}.kind_route k on k.kind = $5::text
    returning id
),
payload as (
    insert into {schema}.job_payload (job_id, input)
    select id, $7::text from queued where octet_length($7::text) > 512
)
select id from queued
