-- revive · dead_letter → work_queue, with its counters at zero and its claim number kept
--
-- Never fresh: it must not collide with its manifest's next tick. An edited input replaces the stored one, and
-- steps that were done with the old one are forgotten.
-- A missing row: that dead letter is not awaiting (any more).
-- $1 dead letters, $2 by whom, $3 due (null: now), $4 new input (null: as it was), $5 note, $6 ms to add to due
with chosen as materialized (
    select id from {schema}.dead_letter where id = any ($1::bigint[]) and status = 'awaiting' order by id for update
),
revived as (
    update {schema}.dead_letter
    set    status = 'revived', resolved_at = now(), resolved_by = $2::text, note = $5::text,
           input = case when $4::text is null then input when octet_length($4::text) <= 512 then $4::text end
    where  id = any (array (select id from chosen))
    returning *
),
edited as (
    insert into {schema}.job_payload (job_id, input)
    select job_id, $4::text from revived where octet_length($4::text) > 512
    on conflict (job_id) do update set input = excluded.input
),
forgotten as (
    delete from {schema}.job_step where $4::text is not null and job_id = any (array (select job_id from revived))
),
queued as (
    insert into {schema}.work_queue (id, {job}, fresh, due_at, phase, rank, gated, claim_no)
    select r.job_id, {r.job}, false, d.due_at, {phase(d.due_at)},
           {rank(d.due_at, r.priority, g.priority)},
           coalesce(g.gated, false) or r.limit_key is not null, r.claim_no
    from   revived r
    cross  join (select coalesce($3::timestamptz, now()) + coalesce($6::bigint, 0) * interval '1 millisecond' as due_at) d
    left   join {schema}.manifest_group g on g.id = r.group_id
)
select id, job_id, manifest_id from revived order by id
