-- hand_back · dispatched jobs that no worker claimed go back into the queue, so that they hold no limit for ever
-- Jobs of a paused manifest are parked. Index: background_job_ready. Zero rows: all were claimed in time.
-- $1 route, $2 at most, $3 ms since they were dispatched
with chosen as materialized (
    select id, manifest_id from {schema}.background_job
    where  route = $1::text and leased_by is null and due_at <= now() - $3::bigint * interval '1 millisecond'
    order  by rank, id limit $2::bigint
    for    update skip locked
),
states as materialized (
    {lock_states((select manifest_id from chosen where manifest_id is not null))}
),
gone as (
    delete from {schema}.background_job
    where  id = any (array (select chosen.id from chosen where {state_is_free(chosen.manifest_id)}))
    returning *
),
requeued as (
    insert into {schema}.work_queue
           (id, {job}, fresh, due_at, phase, rank, gated, claim_no, failures, crashes, last_error, cancel_requested_at)
    select g.id, {g.job}, false, g.was_due_at, case when s.paused and g.origin <> 'trigger' then 'parked' else 'ready' end,
           g.rank, g.gated, g.claim_no, g.failures, g.crashes, g.last_error, g.cancel_requested_at
    from   gone g left join states s on s.manifest_id = g.manifest_id
)
select id, limit_key from gone
