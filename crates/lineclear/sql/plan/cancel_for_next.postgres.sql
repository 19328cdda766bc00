-- cancel_for_next · jobs of these manifests make way for a newer tick
--
-- Who runs is asked to stop; who waits for another try, or was not taken yet, is over. A fresh row is none of these: it
-- would have held the new tick back. What a person asked for goes on. Locked rows are being settled or taken right now, and are skipped: waiting for them
-- could deadlock with a settle that waits for the manifest.
-- Indexes: work_queue_manifest, background_job_manifest.
-- $1 manifest ids
with waiting as (
    delete from {schema}.work_queue
    where  id = any (array (
               select id from {schema}.work_queue
               where  manifest_id = any ($1::bigint[]) and not fresh and origin not in ('trigger', 'backfill')
               order  by id for update skip locked))
    returning id, manifest_id, tick_at, origin, kind, group_id, tags, claim_no, created_at, due_at, unique_key, input
),
ready as (
    delete from {schema}.background_job
    where  id = any (array (
               select id from {schema}.background_job
               where  manifest_id = any ($1::bigint[]) and leased_by is null and origin not in ('trigger', 'backfill')
               order  by id for update skip locked))
    returning id, manifest_id, tick_at, origin, kind, group_id, tags, claim_no, created_at, was_due_at as due_at, unique_key, input
),
asked as (
    update {schema}.background_job
    set    cancel_requested_at = now()
    where  id = any (array (
               select id from {schema}.background_job
               where  manifest_id = any ($1::bigint[]) and leased_by is not null and cancel_requested_at is null
                      and origin not in ('trigger', 'backfill')
               order  by id for no key update skip locked))
)
insert into {schema}.execution
       (job_id, claim_no, final, outcome, manifest_id, tick_at, origin, kind, group_id, tags, input, created_at, due_at, finished_at)
select id, claim_no + 1, true, 'cancelled', manifest_id, tick_at, origin, kind, group_id, tags, input, created_at, due_at, now()
from   (select * from waiting union all select * from ready) over
