-- manifest_live · which of these manifests have a job that is not over?
-- ?1 manifest ids
select manifest_id, 1 as waits from work_queue where manifest_id in (select value from json_each(?1)) and fresh
union
select manifest_id, 0 from work_queue where manifest_id in (select value from json_each(?1)) and not fresh
union
select manifest_id, 0 from background_job where manifest_id in (select value from json_each(?1))
