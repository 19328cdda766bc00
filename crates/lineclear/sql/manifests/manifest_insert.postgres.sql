-- manifest_insert · new manifests, each with its state row
-- $1.. one array per column
with made as (
    insert into {schema}.manifest
           (key, owner, kind, route, input, group_id, spec, overlap, priority, retries, timeout_ms, enabled, next_due_at,
            planned_through, declared, on_dead, backoff, tags)
    select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[],
                         $9::bigint[], $10::bigint[], $11::bigint[], $12::boolean[], $13::timestamptz[], $14::timestamptz[],
                         $15::text[], $16::text[], $17::text[], $18::text[])
    returning id, key, enabled, version
),
state as (
    insert into {schema}.manifest_state (manifest_id, paused) select id, not enabled from made
)
select id, key, version from made order by id
