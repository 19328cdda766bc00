-- prune_jobs · jobs that were planned for manifests that went, and that nobody has begun, end
-- What a person or a handler asked for goes on, and so does what was tried before.
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
       (job_id, claim_no, final, outcome, manifest_id, tick_at, origin, kind, group_id, tags, input, error_type, error_message,
        created_at, due_at, finished_at)
select id, claim_no + 1, 1, 'cancelled', manifest_id, tick_at, origin, kind, group_id, tags, input, 'manifest_removed', ?2,
       created_at, due_at, now_us()
from   work_queue where id in (select id from temp.over)
union all
select id, claim_no + 1, 1, 'cancelled', manifest_id, tick_at, origin, kind, group_id, tags, input, 'manifest_removed', ?2,
       created_at, was_due_at, now_us()
from   background_job where id in (select id from temp.over);
delete from work_queue where id in (select id from temp.over);
delete from background_job where id in (select id from temp.over);
select id, limit_key from temp.over order by id
