-- prune_jobs · jobs that were planned for manifests that went, and that nobody has begun, end
--
-- What a person or a handler asked for goes on, and so does what was tried before. As with park, who moves a waiting row
-- waits for nobody who waits for us. A dispatched row that is locked is just being claimed: it counts as running.
-- Indexes: work_queue_manifest, background_job_manifest.
-- $1 manifest ids, $2 why
with waiting as (
    delete from {schema}.work_queue
    where  id = any (array (
               select id from {schema}.work_queue
               where  manifest_id = any ($1::bigint[]) and claim_no = 0 and origin in ('tick', 'dependent')
               order  by id
               for    update))
    returning id, manifest_id, tick_at, origin, kind, group_id, tags, claim_no, created_at, due_at, limit_key, input
),
ready as (
    delete from {schema}.background_job
    where  id = any (array (
               select id from {schema}.background_job
               where  manifest_id = any ($1::bigint[]) and claim_no = 0 and origin in ('tick', 'dependent') and leased_by is null
               order  by id
               for    update skip locked))
    returning id, manifest_id, tick_at, origin, kind, group_id, tags, claim_no, created_at, was_due_at as due_at, limit_key, input
),
over as materialized (
    select * from waiting union all select * from ready
),
noted as (
    insert into {schema}.execution
           (job_id, claim_no, final, outcome, manifest_id, tick_at, origin, kind, group_id, tags, input, error_type, error_message,
            created_at, due_at, finished_at)
    select id, claim_no + 1, true, 'cancelled', manifest_id, tick_at, origin, kind, group_id, tags, input, 'manifest_removed',
           $2::text, created_at, due_at, now()
    from   over
)
select id, limit_key from over order by id
