-- cancel_for_next · jobs of these manifests make way for a newer tick
-- As in PostgreSQL.
-- ?1 manifest ids
insert into execution
       (job_id, claim_no, final, outcome, {history}, input, due_at, finished_at)
select id, claim_no + 1, 1, 'cancelled', {history}, input, due_at, now_us()
from   work_queue where manifest_id in (select value from json_each(?1)) and not fresh and origin not in ('trigger', 'backfill')
union all
select id, claim_no + 1, 1, 'cancelled', {history}, input, was_due_at, now_us()
from   background_job
where  manifest_id in (select value from json_each(?1)) and leased_by is null and origin not in ('trigger', 'backfill');
delete from work_queue where manifest_id in (select value from json_each(?1)) and not fresh and origin not in ('trigger', 'backfill');
delete from background_job
where  manifest_id in (select value from json_each(?1)) and leased_by is null and origin not in ('trigger', 'backfill');
update background_job
set    cancel_requested_at = now_us()
where  manifest_id in (select value from json_each(?1)) and cancel_requested_at is null and origin not in ('trigger', 'backfill')
