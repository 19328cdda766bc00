-- enqueue_replace · jobs that hold a unique key and were never claimed get another input, time and priority
--
-- Skips rows that another transaction has locked: a cancel locks the job before its key, and this transaction holds the key, so
-- waiting would deadlock. A skipped row is returned as not replaced, and the caller reads it again.
-- Index: work_queue_pkey. Zero rows: they were claimed, or are over.
-- $1 ids, $2 kinds (another kind is not replaced), $3 inputs, $4 priorities, $5 due (null: now), $6 hashes of the body,
-- $7 ms to add to that
with input as (
    select i.id, i.kind, i.input, i.priority, coalesce(i.due_at, now()) + coalesce(i.delay_ms, 0) * interval '1 millisecond' as due_at,
           i.body_hash
    from   unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::timestamptz[], $6::bigint[], $7::bigint[])
           as i (id, kind, input, priority, due_at, body_hash, delay_ms)
),
locked as materialized (
    select w.id from {schema}.work_queue w join input i on i.id = w.id and i.kind = w.kind
    where  w.claim_no = 0
    order  by w.id
    for no key update of w skip locked
),
replaced as (
    update {schema}.work_queue w
    set    input = case when octet_length(i.input) <= 512 then i.input end, priority = i.priority, due_at = i.due_at,
           phase = case when w.phase = 'parked' then 'parked' when i.due_at > now() then 'later'
                        when w.phase = 'later' then 'ready' else w.phase end,
           rank = {rank(i.due_at, i.priority, {group_priority(w.group_id)})}
    from   input i
    where  i.id = w.id and w.id = any (array (select id from locked))
    returning w.id, w.unique_key
),
hash as (
    update {schema}.job_key k set body_hash = i.body_hash
    from   replaced r join input i on i.id = r.id
    where  k.key = r.unique_key and k.job_id = r.id
),
short as (
    delete from {schema}.job_payload p using input i
    where  p.job_id = i.id and octet_length(i.input) <= 512 and i.id in (select id from replaced)
),
long as (
    insert into {schema}.job_payload (job_id, input)
    select id, input from input where octet_length(input) > 512 and id in (select id from replaced)
    on conflict (job_id) do update set input = excluded.input
)
select w.id, w.kind, w.id in (select id from replaced) as replaced
from   {schema}.work_queue w join input i on i.id = w.id
where  w.claim_no = 0
