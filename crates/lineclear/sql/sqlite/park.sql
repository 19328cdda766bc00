-- park · waiting jobs of paused manifests step aside
-- ?1 manifest ids
update work_queue set phase = 'parked'
where  manifest_id in (select value from json_each(?1)) and phase <> 'parked'
returning id, limit_key
