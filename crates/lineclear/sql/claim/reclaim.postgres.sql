-- reclaim · a lease ran out, or its job is long past its time: the job goes back, to the dead letters, or ends as cancelled
--
-- One statement writes the vanished claim's history and moves the job, so it cannot fall between.
-- rank 0 puts it before all fresh work.
-- Only a dead worker is a crash: a claim is charged if it had started and its node was not heard of after the lease's end. While
-- the node's next heartbeat is still to come, the claim is left alone: the node may be slow and not dead. A job whose workers keep dying is buried after $2
-- crashes, and its manifest is held; manifests are locked in id order, as everywhere.
-- A job that was leased ahead of a free slot has no start until a renewal sees its handler run: it is not charged, and its next
-- claim records the start before the handler begins.
-- A dead worker that wakes up carries an old claim_no, and changes nothing.
-- A job past its deadline is taken even from a worker that renews: one that blocks all its threads renews, but neither
-- ends nor can be told to. Deadlines of jobs that submitters have accepted are left out: those time out (overdue_accepted).
-- Waits for nothing: rows, and states of manifests, that another transaction holds are skipped.
-- Indexes: background_job_lease, background_job_deadline. Zero rows: no lease ran out.
-- $1 at most, $2 crashes before it is buried, $3 jobs that the caller runs itself, $4 only these jobs; empty: any, $5 leases that ended
-- before this moment: a statement that the database was slow to begin takes nothing that ended meanwhile, $6 and not before this one
-- (null: whenever): an old snapshot keeps the entries of all leases that are over in the index
with late as materialized (
    select b.id, b.manifest_id,
           b.started_at is not null
           and (b.due_at > now() or not exists (select from {schema}.node n where n.id = b.leased_by and n.seen_at > b.due_at)) as crashed,
           case when b.due_at > now() then 'overdue' else 'worker_lost' end as error_type
    from   {schema}.background_job b
    where  b.id = any (array (
               select over.id from (
                   select id from {schema}.background_job l
                   where  leased_by is not null and due_at <= least(now(), $5::timestamptz)
                          and due_at >= coalesce($6::timestamptz, '-infinity') and id <> all ($3::bigint[])
                          and (cardinality($4::bigint[]) = 0 or id = any ($4::bigint[]))
                          and not exists (select from {schema}.node n
                                          where  n.id = l.leased_by and n.seen_at <= l.due_at
                                                 and n.seen_at + n.beat_ms * interval '1.5 milliseconds' > now())
                   order  by due_at
                   limit  $1::bigint
                   for    update skip locked) over
               union all
               select late.id from (
                   select id from {schema}.background_job l
                   where  deadline_at <= least(now(), $5::timestamptz) and deadline_at >= coalesce($6::timestamptz, '-infinity')
                          and not exists (select from {schema}.node n where n.id = l.leased_by and n.roles = '["submitter"]')
                          and (cardinality($4::bigint[]) = 0 or id = any ($4::bigint[]))
                   order  by deadline_at
                   limit  $1::bigint
                   for    update skip locked) late))
),
states as materialized (
    {lock_states((select manifest_id from late where manifest_id is not null))}
),
gone as (
    delete from {schema}.background_job b
    using  late
    -- The array: without statistics, the join alone may read the whole table.
    where  b.id = any (array (select id from late)) and b.id = late.id and (b.cancel_requested_at is not null or {state_is_free(late.manifest_id)})
    returning b.*, b.crashes + late.crashed::int as crashed,
              case when b.cancel_requested_at is not null then 'cancel'
                   when late.crashed and b.crashes + 1 >= $2::bigint then 'bury' else 'requeue' end as verdict,
              case when late.crashed then late.error_type when b.started_at is null then 'not_started' else 'worker_late' end as error_type,
              case when late.error_type = 'overdue' then 'the job ran far past its time, and its worker did not end it'
                   when late.crashed then 'the worker did not renew its lease'
                   when b.started_at is null then 'the lease ran out before the start of the handler was recorded'
                   else 'the lease ran out, although its node lives' end as error_message
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
