-- settle · background_job → history, another try, or the dead letters; fenced by (id, claim_no)
--
-- The number decides, not the time: a result is taken after its lease ended, until another claim has the job.
-- A row that does not match changes nothing and is not returned: stale, or settled before (settle_seen tells).
-- A job of a kind that its node does not know is parked until a node comes that does.
-- A job that was asked to stop gets no further try, whatever its handler answered.
-- Each input column rides along in the DELETE, because joining two batches again invites a nested loop.
-- Waits for nothing: a row, or the state of its manifest, that another transaction holds is skipped, and its settlement is tried
-- again (settle_seen tells). `unnoted`: the manifest's state was held, so its last success is to be noted later.
-- $1 node, $2.. job, claim number, verdict, outcome, output, error type, error message, fingerprint, delay in ms, reason,
-- how long the handler ran in µs: of a job that was leased ahead of a free slot, the start was not recorded
with input as materialized (
    select * from unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
                         $10::bigint[], $11::text[], $12::bigint[])
             as i (id, claim_no, verdict, outcome, output, error_type, error_message, fingerprint, after_ms, reason, ran_us)
),
locked as materialized (
    select b.id, b.manifest_id,
           case when b.cancel_requested_at is not null and i.verdict <> 'complete' then 'cancel' else i.verdict end as verdict
    from   {schema}.background_job b join input i on i.id = b.id and i.claim_no = b.claim_no
    where  b.leased_by = $1::bigint
    order  by b.id for update of b skip locked
),
states as materialized (
    {lock_states((select manifest_id from locked where verdict in ('retry', 'snooze', 'release', 'bury') and manifest_id is not null))}
),
gone as (
    delete from {schema}.background_job as b
    using  input i
    where  b.id = i.id and b.claim_no = i.claim_no and b.id = any (array (
               select l.id from locked l where l.verdict in ('complete', 'cancel', 'park') or {state_is_free(l.manifest_id)}))
    returning b.*, i.outcome, i.output, i.error_type, i.error_message, i.fingerprint, i.after_ms, i.reason, i.ran_us,
              case when b.cancel_requested_at is not null and i.verdict <> 'complete' then 'cancel' else i.verdict end as verdict
),
requeued as (
    insert into {schema}.work_queue
           (id, {job}, fresh, due_at, phase, rank, gated, claim_no, failures, crashes, last_error, unknown_kind)
    select g.id, {g.job}, false, d.due_at,
           case when g.verdict = 'park' or s.paused and g.origin <> 'trigger' then 'parked'
                else {phase(d.due_at)} end,
           case when g.verdict in ('release', 'park') then g.rank
                else {rank(d.due_at, g.priority, mg.priority)} end,
           g.gated or coalesce(mg.gated, false), g.claim_no, g.failures + (g.verdict = 'retry')::int, g.crashes,
           coalesce(g.error_message, g.last_error), g.verdict = 'park'
    from   gone g
    cross  join lateral (select case when g.verdict in ('release', 'park') then g.was_due_at
                                else now() + g.after_ms * interval '1 millisecond' end as due_at) d
    left   join {schema}.manifest_group mg on mg.id = g.group_id
    left   join states s on s.manifest_id = g.manifest_id
    where  g.verdict in ('retry', 'snooze', 'release', 'park')
),
buried as (
    insert into {schema}.dead_letter (job_id, {job}, claim_no, failures, crashes, last_error, reason, fingerprint)
    select id, {job}, claim_no, failures + 1, crashes, error_message, reason, fingerprint from gone where verdict = 'bury'
),
holding as (
    {hold_manifests}
),
succeeded as (
    update {schema}.manifest_state as s
    set    last_success_at = now(), last_success_job_id = c.id, last_output = c.output
    from   (select distinct on (manifest_id) manifest_id, id, output from gone
            where  verdict = 'complete' and manifest_id is not null order by manifest_id, id desc) c
    where  s.manifest_id = c.manifest_id and s.manifest_id = any (array (
               select m.manifest_id from {schema}.manifest_state m
               where  m.manifest_id = any (array (select g.manifest_id from gone g where g.verdict = 'complete'))
               order  by m.manifest_id for no key update skip locked))
    returning s.manifest_id
),
freed as (
    {free_keys((select unique_key, id from gone where verdict in ('complete', 'cancel')))}
),
noted as (
    insert into {schema}.execution
           (job_id, claim_no, final, outcome, {history}, node, input, output, error_type, error_message, fingerprint,
            due_at, claimed_at, started_at, finished_at)
    select id, claim_no, verdict in ('complete', 'cancel'), outcome, {history}, leased_by,
           case when verdict in ('complete', 'cancel') then input end, output, error_type, error_message, fingerprint,
           was_due_at, claimed_at,
           coalesce(started_at, case when ran_us is not null then greatest(claimed_at, now() - ran_us * interval '1 microsecond') end),
           now()
    from   gone
)
select id, claim_no, verdict, manifest_id, limit_key, case when gated then group_id end as group_id,
       verdict = 'complete' and manifest_id is not null
       and not exists (select from succeeded s where s.manifest_id = gone.manifest_id) as unnoted
from   gone order by id
