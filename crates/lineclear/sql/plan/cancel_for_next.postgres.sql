-- cancel_for_next · jobs of these manifests make way for a newer tick
--
-- Running jobs are asked to stop; jobs that wait for a retry or were not claimed yet end. Fresh rows are left: a fresh row
-- would have held the new tick back. Jobs that a person asked for go on. Locked rows are being settled or claimed, and are skipped: waiting
-- for them could deadlock with a settle that waits for the manifest.
-- Indexes: work_queue_manifest, background_job_manifest.
-- $1 manifest ids
with waiting as (
    delete from {schema}.work_queue
    where  id = any (array (
               select id from {schema}.work_queue
               where  manifest_id = any ($1::bigint[]) and not fresh and origin not in ('trigger', 'backfill')
               order  by id for update skip locked))
    returning id, {history}, claim_no, due_at, unique_key, input
),
ready as (
    delete from {schema}.background_job
    where  id = any (array (
               select id from {schema}.background_job
               where  manifest_id = any ($1::bigint[]) and leased_by is null and origin not in ('trigger', 'backfill')
               order  by id for update skip locked))
    returning id, {history}, claim_no, was_due_at as due_at, unique_key, input
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
       (job_id, claim_no, final, outcome, {history}, input, due_at, finished_at)
select id, claim_no + 1, true, 'cancelled', {history}, input, due_at, now()
from   (select * from waiting union all select * from ready) over
