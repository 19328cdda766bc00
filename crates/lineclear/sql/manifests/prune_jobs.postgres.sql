-- prune_jobs · end the jobs of removed manifests that were planned and not started
--
-- Jobs that a person or a handler asked for go on, and so do jobs that were tried before. Waiting rows can be locked without a deadlock, as
-- in park. A dispatched row that is locked is being claimed: it counts as running.
-- Indexes: work_queue_manifest, background_job_manifest.
-- $1 manifest ids, $2 why
with waiting as (
    delete from {schema}.work_queue
    where  id = any (array (
               select id from {schema}.work_queue
               where  manifest_id = any ($1::bigint[]) and claim_no = 0 and origin in ('tick', 'dependent')
               order  by id
               for    update))
    returning id, {history}, claim_no, due_at, limit_key, input
),
ready as (
    delete from {schema}.background_job
    where  id = any (array (
               select id from {schema}.background_job
               where  manifest_id = any ($1::bigint[]) and claim_no = 0 and origin in ('tick', 'dependent') and leased_by is null
               order  by id
               for    update skip locked))
    returning id, {history}, claim_no, was_due_at as due_at, limit_key, input
),
over as materialized (
    select * from waiting union all select * from ready
),
noted as (
    insert into {schema}.execution
           (job_id, claim_no, final, outcome, {history}, input, error_type, error_message, due_at, finished_at)
    select id, claim_no + 1, true, 'cancelled', {history}, input, 'manifest_removed', $2::text, due_at, now()
    from   over
)
select id, limit_key from over order by id
