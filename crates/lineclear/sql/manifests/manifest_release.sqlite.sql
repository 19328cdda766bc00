-- manifest_release · a manifest none of whose dead letters awaits a person may be planned again
-- ?1 manifest ids
update manifest
set    held = 0
where  id in (select value from json_each(?1)) and held
       and not exists (select 1 from dead_letter d where d.manifest_id = manifest.id and d.status = 'awaiting')
returning id
