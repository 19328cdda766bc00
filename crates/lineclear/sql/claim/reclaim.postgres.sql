-- reclaim · a lease ran out, or its job is long past its time: the job goes back, to the dead letters, or ends as cancelled
--
-- One statement writes the vanished claim's history and moves the job, so it cannot fall between.
-- rank 0 puts it before all fresh work. Only a claim that had started counts as a crash. A job whose workers keep vanishing is buried after $2 crashes, and its
-- manifest is held; manifests are locked in id order, as everywhere.
-- A dead worker that wakes up carries an old claim_no, and changes nothing.
-- A job past its deadline is taken even from a worker that renews: one that blocks all its threads renews, but neither
-- ends nor can be told to.
-- Indexes: background_job_lease, background_job_deadline. Locked rows are being renewed or settled, and are skipped. Zero rows: no lease ran out.
-- $1 at most, $2 crashes before it is buried, $3 jobs that the caller runs itself, $4 only these jobs; empty: any
with gone as (
    delete from {schema}.background_job
    where  id = any (array (
               select over.id from (
                   select id from {schema}.background_job
                   where  leased_by is not null and due_at <= now() and id <> all ($3::bigint[])
                          and (cardinality($4::bigint[]) = 0 or id = any ($4::bigint[]))
                   order  by due_at
                   limit  $1::bigint
                   for    update skip locked) over
               union all
               select late.id from (
                   select id from {schema}.background_job
                   where  deadline_at <= now() and (cardinality($4::bigint[]) = 0 or id = any ($4::bigint[]))
                   order  by deadline_at
                   limit  $1::bigint
                   for    update skip locked) late))
    returning *, crashes + (started_at is not null)::int as crashed,
              case when cancel_requested_at is not null then 'cancel'
                   when started_at is not null and crashes + 1 >= $2::bigint then 'bury' else 'requeue' end as verdict,
              case when due_at > now() then 'overdue' else 'worker_lost' end as error_type,
              case when due_at > now() then 'the job ran far past its time, and its worker did not end it'
                   else 'the worker did not renew its lease' end as error_message
),
states as materialized (
    {lock_states((select manifest_id from gone where verdict <> 'cancel' and manifest_id is not null))}
),
requeued as (
    insert into {schema}.work_queue
           (id, {job}, fresh, due_at, phase, rank, gated, claim_no, failures, crashes, last_error)
    select g.id, {g.job}, false, g.was_due_at, case when s.paused and g.origin <> 'trigger' then 'parked' else 'ready' end,
           0, g.gated, g.claim_no, g.failures, g.crashed, g.error_message
    from   gone g left join states s on s.manifest_id = g.manifest_id
    where  g.verdict = 'requeue'
),
buried as (
    insert into {schema}.dead_letter (job_id, {job}, claim_no, failures, crashes, last_error, reason)
    select id, {job}, claim_no, failures, crashed, error_message, 'worker_lost' from gone where verdict = 'bury'
),
holding as (
    {hold_manifests}
),
freed as (
    {free_keys((select unique_key, id from gone where verdict = 'cancel'))}
),
noted as (
    insert into {schema}.execution
           (job_id, claim_no, final, outcome, {history}, node, input, error_type, error_message,
            due_at, claimed_at, started_at, finished_at)
    select id, claim_no, verdict = 'cancel', 'lost', {history}, leased_by,
           case when verdict = 'cancel' then input end, error_type, error_message, was_due_at, claimed_at, started_at, now()
    from   gone
)
select id, claim_no, leased_by, verdict, limit_key from gone order by id
