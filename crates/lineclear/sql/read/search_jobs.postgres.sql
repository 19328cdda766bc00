-- search_jobs · a page of jobs that a query finds, newest first: waiting, running, dead and over
--
-- Reads at most $3 rows of each table that can hold a match, and filters those: a rare match in a long history
-- cannot make it read all of that. `seen_down_to` is where the next page begins (null: this was the last), `looked` how many rows
-- were read. Always one row at least. One statement, so that a moving job is not listed twice.
-- A name that ends in * is a prefix; an empty list and null do not filter.
-- $1 before this id, $2 at most, $3 window, $4 not before this id, look into: $5 work_queue, $6 background_job, $7 dead_letter,
-- $8 execution; $9 states, $10 origins; lists of which one must fit and of which none may: $11 $12 kinds, $13 $14 groups,
-- $15 $16 manifests, $17 $18 routes, $19 $20 nodes, $21 $22 parts of the error, $23 $24 ids; $25 claims from, $26 to;
-- $27 µs of the last claim from, $28 to; $29 accepted since, $30 before; $31 $32 tags, which stand in one text with spaces between;
-- $33 $34 families of errors, $35 $36 reasons of dead letters, $37 of those only the ones that await a person
with waiting as materialized (
    select id, {shown_job},
           due_at, limit_key, phase, null::timestamptz as finished_at, null::bigint as node, last_error, null::text as progress, null::bigint as run_us, null::text as fingerprint, null::text as reason,
           {waiting_state} as state
    from   {schema}.work_queue where $5::boolean and id < $1::bigint and id >= $4::bigint order by id desc limit $3::bigint
),
handed as materialized (
    select id, {shown_job},
           was_due_at, limit_key, null::text, null::timestamptz, leased_by, last_error, progress, {micros(now() - coalesce(started_at, claimed_at))}, null::text, null::text,
           {dispatched_state}
    from   {schema}.background_job where $6::boolean and id < $1::bigint and id >= $4::bigint order by id desc limit $3::bigint
),
-- In two parts, each with its index: finding the few that await a person does not read the many that are resolved.
dead as materialized (
    (select job_id, {shown_job},
            dead_at, limit_key, null::text, dead_at, null::bigint, last_error, null::text, null::bigint, fingerprint, reason, 'dead'
     from   {schema}.dead_letter
     where  $7::boolean and not $37::boolean and job_id < $1::bigint and job_id >= $4::bigint and status <> 'revived' order by job_id desc limit $3::bigint)
    union all
    (select job_id, {shown_job},
            dead_at, limit_key, null::text, dead_at, null::bigint, last_error, null::text, null::bigint, fingerprint, reason, 'dead'
     from   {schema}.dead_letter
     where  $7::boolean and $37::boolean and job_id < $1::bigint and job_id >= $4::bigint and status = 'awaiting' order by job_id desc limit $3::bigint)
),
ended as materialized (
    select job_id, manifest_id, tick_at, origin, kind, null::text, group_id, tags, null::smallint, claim_no, null::integer, null::integer,
           created_at, due_at, null::text, null::text, finished_at, node, error_message, null::text,
           {micros(finished_at - coalesce(started_at, claimed_at))}, fingerprint, null::text,
           {ended_state}
    from   {schema}.execution where final and $8::boolean and job_id < $1::bigint and job_id >= $4::bigint order by job_id desc limit $3::bigint
),
bottom as materialized (
    select greatest((select min(id)     from waiting having count(*) = $3::bigint),
                    (select min(id)     from handed  having count(*) = $3::bigint),
                    (select min(job_id) from dead    having count(*) = $3::bigint),
                    (select min(job_id) from ended   having count(*) = $3::bigint)) as id,
           (select count(*) from waiting) + (select count(*) from handed) + (select count(*) from dead)
           + (select count(*) from ended) as looked
),
seen as (
    select * from waiting union all select * from handed union all select * from dead union all select * from ended
),
-- Ids first: names are looked up only where they are needed.
found as materialized (
    select id from (
        select seen.*, (select g.name from {schema}.manifest_group g where g.id = group_id) as group_name,
               (select m.key from {schema}.manifest m where m.id = manifest_id) as manifest_key,
               (select n.name from {schema}.node n where n.id = node) as node_name
        from   seen
    ) named
    where  id >= coalesce((select bottom.id from bottom), 0)
           and ($9::text[] is null or state = any ($9::text[]))
           and ($10::text[] is null or origin = any ($10::text[]))
           and {one_fits(kind, $11::text[])}
           and {none_fits(kind, $12::text[])}
           and {one_fits(group_name, $13::text[])}
           and {none_fits(group_name, $14::text[])}
           and {one_fits(manifest_key, $15::text[])}
           and {none_fits(manifest_key, $16::text[])}
           and {one_fits(route, $17::text[])}
           and {none_fits(route, $18::text[])}
           and {one_fits(node_name, $19::text[])}
           and {none_fits(node_name, $20::text[])}
           and (cardinality($21::text[]) = 0 or exists (select from unnest($21::text[]) p where strpos(last_error, p) > 0))
           and (cardinality($22::text[]) = 0 or not exists (select from unnest($22::text[]) p where strpos(last_error, p) > 0))
           and (cardinality($23::bigint[]) = 0 or id = any ($23::bigint[]))
           and id <> all ($24::bigint[])
           and claim_no >= $25::bigint and claim_no <= $26::bigint
           and ($27::bigint is null or run_us >= $27::bigint and run_us <= $28::bigint)
           and ($29::timestamptz is null or created_at >= $29::timestamptz)
           and ($30::timestamptz is null or created_at < $30::timestamptz)
           and (cardinality($31::text[]) = 0
                or exists (select from unnest($31::text[]) p, string_to_array(tags, ' ') t
                           where  p = any (t) or right(p, 1) = '*' and strpos(' ' || tags, ' ' || left(p, -1)) > 0))
           and (cardinality($32::text[]) = 0
                or not exists (select from unnest($32::text[]) p, string_to_array(tags, ' ') t
                           where  p = any (t) or right(p, 1) = '*' and strpos(' ' || tags, ' ' || left(p, -1)) > 0))
           and {one_fits(fingerprint, $33::text[])}
           and {none_fits(fingerprint, $34::text[])}
           and (cardinality($35::text[]) = 0 or reason = any ($35::text[]))
           and (cardinality($36::text[]) = 0 or not exists (select from unnest($36::text[]) p where reason = p))
    order  by id desc
    limit  $2::bigint
)
select bottom.id as seen_down_to, bottom.looked, seen.*,
       (select m.key from {schema}.manifest m where m.id = seen.manifest_id) as manifest_key,
       (select g.name from {schema}.manifest_group g where g.id = seen.group_id) as group_name,
       (select n.name from {schema}.node n where n.id = seen.node) as node_name
from   bottom
left   join seen on seen.id in (select found.id from found)
order  by seen.id desc
