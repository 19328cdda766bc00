-- prune_jobs · end the jobs of removed manifests that were planned and not started
-- Jobs that a person or a handler asked for go on, and so do jobs that were tried before.
-- Indexes: work_queue_manifest, background_job_manifest.
-- ?1 manifest ids, ?2 why
delete from temp.over;
insert into temp.over (id, unique_key, limit_key, leased_by, over)
select id, unique_key, limit_key, null, 1 from work_queue
where  manifest_id in (select value from json_each(?1)) and claim_no = 0 and origin in ('tick', 'dependent')
union all
select id, unique_key, limit_key, null, 1 from background_job
where  manifest_id in (select value from json_each(?1)) and claim_no = 0 and origin in ('tick', 'dependent')
       and leased_by is null;
insert into execution
       (job_id, claim_no, final, outcome, {history}, input, error_type, error_message, due_at, finished_at)
select id, claim_no + 1, 1, 'cancelled', {history}, input, 'manifest_removed', ?2, due_at, now_us()
from   work_queue where id in (select id from temp.over)
union all
select id, claim_no + 1, 1, 'cancelled', {history}, input, 'manifest_removed', ?2, was_due_at, now_us()
from   background_job where id in (select id from temp.over);
delete from work_queue where id in (select id from temp.over);
delete from background_job where id in (select id from temp.over);
select id, limit_key from temp.over order by id
